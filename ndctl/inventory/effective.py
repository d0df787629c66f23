"""The inventory with every default filled in, and where each value came from."""

from __future__ import annotations

import hashlib
from typing import Any

from ndctl.inventory.schema import Inventory
from ndctl.model.jsonable import dumps, jsonable
from ndctl.profiles.marked_yaml import Document, KeyPath, dotted, leaves
from ndctl.profiles.schema import Known, Profile

Effective = tuple[str, Any, str]  # key, value, origin


def effective_values(inventory: Inventory, profile: Profile, document: Document) -> list[Effective]:
    """(dotted key, value, origin) in the order of the schema; a key without any value is left out.

    origin: "inventory line 7", "profile gb300 (<source and date>)" or "default".
    """
    from_profile = _from_profile(inventory, profile)
    result: list[Effective] = []
    for path, value in leaves(inventory.model_dump()):
        if value is not None and path in document.places:
            origin = f"inventory line {document.where_key(path).line}"
        elif value is None and path in from_profile:
            value, origin = from_profile[path]
        elif value is None:
            continue
        else:
            origin = "default"
        result.append((dotted(path), jsonable(value), origin))
    return result


def digest_of(values: list[Effective]) -> str:
    """sha256 over keys and values: comments, order in the file and where a value came from do not count."""
    pairs = sorted((key, dumps(value, indent=None)) for key, value, _ in values)
    return hashlib.sha256(dumps(pairs, indent=None).encode()).hexdigest()


def _from_profile(inventory: Inventory, profile: Profile) -> dict[KeyPath, tuple[Any, str]]:
    if inventory.static is not None:
        return {}

    def of(known: Known[Any], value: Any = None) -> tuple[Any, str]:
        return (known.value if value is None else value, f"profile {profile.name} ({known.origin})")

    azure = profile.azure
    disk = "ephemeral" if azure.ephemeral_os_disk.value else "premium"
    return {
        ("profile",): (profile.name, f"profile {profile.name} (lists {inventory.vm_size})"),
        ("vms_per_rack",): of(profile.vms_per_rack),
        ("image",): of(azure.image),
        ("placement", "kind"): of(azure.placement),
        ("placement", "single_placement_group"): of(azure.single_placement_group),
        ("placement", "platform_fault_domain_count"): of(azure.platform_fault_domain_count),
        ("placement", "os_disk"): of(azure.ephemeral_os_disk, disk),
    }
