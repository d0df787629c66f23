"""Deployment and Rendered: what rendering gives, ready for ARM and for files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PARAMETERS_SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#"


def json_text(value: Any) -> str:
    """Two-space JSON in the order given, ending in a newline: the same value is always the same bytes."""
    return json.dumps(value, indent=2, ensure_ascii=True) + "\n"


@dataclass(frozen=True, slots=True)
class Deployment:
    """One ARM deployment into the cluster's resource group.

    name:       of the deployment in ARM
    rack:       "rack07", "" for the foundation
    template:   the ARM template, a plain JSON object
    parameters: ARM's parameter map, {name: {"value": …}}; a parameter without a known value has only "metadata"
    """

    name: str
    rack: str
    template: dict[str, Any]
    parameters: dict[str, dict[str, Any]]

    @property
    def file_stem(self) -> str:
        return self.rack or "foundation"

    @property
    def missing_parameters(self) -> tuple[str, ...]:
        """Parameters nobody has given a value to: render again with a public key before deploying."""
        return tuple(name for name, entry in self.parameters.items() if "value" not in entry)

    def parameters_file(self) -> dict[str, Any]:
        return {"$schema": PARAMETERS_SCHEMA, "contentVersion": "1.0.0.0", "parameters": self.parameters}


@dataclass(frozen=True, slots=True)
class Rendered:
    """A whole cluster, rendered. `foundation` comes first; the racks depend on it and not on each other."""

    cluster: str
    foundation: Deployment
    racks: tuple[Deployment, ...]
    cloud_init: str
    notes: tuple[str, ...] = field(default=())

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        return (self.foundation, *self.racks)

    @property
    def missing_parameters(self) -> tuple[str, ...]:
        return tuple(sorted({name for one in self.deployments for name in one.missing_parameters}))

    def files(self) -> Mapping[str, str]:
        """Relative path → text, in the order of deployment."""
        files: dict[str, str] = {}
        for one in self.deployments:
            files[f"{one.file_stem}.json"] = json_text(one.template)
            files[f"{one.file_stem}.parameters.json"] = json_text(one.parameters_file())
        files["cloud-init.yaml"] = self.cloud_init
        return files
