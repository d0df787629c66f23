"""ARM's limits on one deployment, held before anything is sent.

Source: learn.microsoft.com, "Azure subscription and service limits: Azure Resource Manager" and "Custom data and
cloud-init on Azure VMs", read 2026-12.
"""

from __future__ import annotations

import json
from typing import Any

from ndctl.model.errors import ExitCode, NdctlError

TEMPLATE_BYTES = 4 * 1024 * 1024
RESOURCE_BYTES = 1024 * 1024
RESOURCES = 800
PARAMETERS = 256
CUSTOM_DATA_BYTES = 64 * 1024
TAGS = 50
TAG_NAME = 512
TAG_VALUE = 256


def hold_limits(name: str, template: dict[str, Any]) -> None:
    """Raises NdctlError (exit 2), naming the limit that `template` breaks."""
    resources = template["resources"]
    _hold(name, "bytes of template", len(json.dumps(template).encode()), TEMPLATE_BYTES)
    _hold(name, "resources", len(resources), RESOURCES)
    _hold(name, "parameters", len(template.get("parameters", {})), PARAMETERS)
    for resource in resources:
        label = f"{name}: {resource['type']} {resource['name']}"
        _hold(label, "bytes of resource", len(json.dumps(resource).encode()), RESOURCE_BYTES)
        _hold(label, "tags", len(resource.get("tags", {})), TAGS)
        for key, value in resource.get("tags", {}).items():
            _hold(label, f"letters in the name of tag {key[:20]!r}", len(key), TAG_NAME)
            _hold(label, f"letters in the value of tag {key[:20]!r}", len(value), TAG_VALUE)


def hold_custom_data(cloud_init: str) -> None:
    """Azure takes 64 KiB of custom data, counted before base64."""
    _hold("cloud-init.yaml", "bytes of custom data", len(cloud_init.encode()), CUSTOM_DATA_BYTES)


def _hold(what: str, unit: str, value: int, limit: int) -> None:
    if value > limit:
        raise NdctlError(
            "render.arm-limit",
            f"{what}: {value:,} {unit}, Azure takes {limit:,}",
            exit_code=ExitCode.USAGE,
        )
