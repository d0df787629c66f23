"""An inventory and its nodes made again from what a run kept of them; the profile is today's of that name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from ndctl.inventory.loader import Loaded
from ndctl.inventory.proven import read, with_proven
from ndctl.inventory.schema import DisabledCheck, Inventory, Placement
from ndctl.model.places import Cluster, Node, Rack
from ndctl.profiles import load as load_profile
from ndctl.profiles.marked_yaml import Document

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class NotRemembered(ValueError):
    """What was kept is not what it should be; the text says what."""


@dataclass(frozen=True, eq=False)
class Remembered(Loaded):
    """An inventory of which only what judging looks at is known. `told`: its digest as it was."""

    told: str = ""

    @cached_property
    def digest(self) -> str:
        return self.told


def remembered_inventory(cluster: str, part: Mapping[str, Any]) -> Remembered:
    """Raises NotRemembered, and NdctlError (exit 2) where there is no profile of that name any more."""
    if not isinstance(part, Mapping) or not isinstance(part.get("profile"), str):
        raise NotRemembered(f"no profile is named for {cluster}")
    given = {
        "cluster": cluster,
        "profile": part["profile"],
        "placement": Placement.model_validate(part.get("placement") or {}),
        "disabled_checks": tuple(DisabledCheck.model_validate(one) for one in part.get("disabled_checks") or ()),
        "nccl_env": {str(key): str(value) for key, value in (part.get("nccl_env") or {}).items()},
        **{key: part.get(key) for key in ("racks", "vms_per_rack", "vm_size", "image")},
    }
    # Not validated: login, network and subscription are none of a replay's business.
    inventory = Inventory.model_construct(_fields_set=set(given), **given)
    path = Path(str(part.get("path", "")))
    document = Document(file=path, data={}, places={})
    proven = read(part.get("proven") or {})
    profile = with_proven(load_profile(part["profile"]), cluster, proven)
    return Remembered(inventory, path, profile, document, proven, told=str(part.get("digest", "")))


def remembered_cluster(name: str, racks: Sequence[Mapping[str, Any]]) -> Cluster:
    """Raises NotRemembered."""
    return Cluster(name, tuple(_rack(one) for one in racks))


def _rack(part: Mapping[str, Any]) -> Rack:
    number, expected = part.get("number"), part.get("expected_nodes")
    if not isinstance(number, int) or not isinstance(expected, int):
        raise NotRemembered(f"rack {part.get('name')!r} has no number, or not how many nodes it should have")
    return Rack(_name(part.get("name")), number, expected, tuple(_node(one) for one in part.get("nodes", ())))


def _node(part: Mapping[str, Any]) -> Node:
    known = {one.name: one.type for one in fields(Node)}
    wrong = [key for key, value in part.items() if key in known and type(value).__name__ != known[key]]
    if wrong:
        raise NotRemembered(f"{wrong[0]} of node {part.get('name')!r} is {part[wrong[0]]!r}")
    _name(part.get("name"))
    return Node(**{key: value for key, value in part.items() if key in known})


def _name(value: Any) -> str:
    """Names become parts of paths, so they may hold nothing that leads elsewhere."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise NotRemembered(f"{value!r} is no name of a node or rack")
    return value
