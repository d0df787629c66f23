"""/opt/azurehpc/component_versions.txt of Azure's HPC images: one JSON object, component -> version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.parse.loose_json import objects


@dataclass(frozen=True, slots=True)
class ComponentVersions:
    """complete: False where the JSON is broken or cut; `versions` then holds its front."""

    versions: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> ComponentVersions:
    """Never raises. Values that are no text or number are kept as unknown."""
    for found in objects(text):
        if not isinstance(found.value, Mapping):
            continue
        versions = {str(k): str(v).strip() for k, v in found.value.items() if isinstance(v, (str, int, float))}
        strange = tuple(str(key) for key in found.value if str(key) not in versions)
        return ComponentVersions({k: v for k, v in versions.items() if v}, found.complete, strange)
    return ComponentVersions()
