"""What can be said of a deployment before it is made: line by line proved, refused, or not to be proved yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ndctl.model.errors import ExitCode, worst_exit

PREFLIGHT_SCHEMA = "ndctl.preflight/1"


class Standing(StrEnum):
    """What a line says. Nothing is proved that was not seen."""

    PROVED = "proved"
    REFUSED = "refused"
    UNPROVED = "cannot be proved before deploy"


@dataclass(frozen=True, slots=True)
class PreflightLine:
    """One answer.

    id:        "quota.family", "permissions.deploy"
    message:   one sentence with the figures
    source:    who says so: the API that was asked, the file that was read
    next_step: one command or act; "" where nothing is to be done
    exit_code: of a refused line: 4, or 3 for credentials and permissions
    facts:     the figures, for machines
    """

    id: str
    title: str
    standing: Standing
    message: str
    source: str
    next_step: str = ""
    exit_code: ExitCode = ExitCode.PREFLIGHT
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        return self.standing is Standing.REFUSED


@dataclass(frozen=True, slots=True)
class Preflight:
    """All lines of one inventory, in a fixed order."""

    inventory: str
    cluster: str
    subscription: str
    resource_group: str
    region: str
    zone: str
    verbs: tuple[str, ...]
    lines: tuple[PreflightLine, ...]

    def count(self, standing: Standing) -> int:
        return sum(1 for line in self.lines if line.standing is standing)

    @property
    def refused(self) -> tuple[PreflightLine, ...]:
        return tuple(line for line in self.lines if line.refused)

    @property
    def exit_code(self) -> ExitCode:
        return worst_exit(line.exit_code for line in self.refused)

    def as_dict(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "inventory": self.inventory,
            "subscription": self.subscription,
            "resource_group": self.resource_group,
            "region": self.region,
            "zone": self.zone,
            "for": list(self.verbs),
            "counts": {standing.value: self.count(standing) for standing in Standing},
            "lines": [
                {
                    "id": line.id,
                    "title": line.title,
                    "standing": line.standing.value,
                    "message": line.message,
                    "source": line.source,
                    "next_step": line.next_step,
                    "facts": dict(line.facts),
                }
                for line in self.lines
            ],
            "exit_code": int(self.exit_code),
        }


def preflights_dict(found: tuple[Preflight, ...]) -> dict[str, Any]:
    """The published form of one or more inventories side by side."""
    return {
        "schema": PREFLIGHT_SCHEMA,
        "clusters": [one.as_dict() for one in found],
        "exit_code": int(worst_exit(one.exit_code for one in found)),
    }
