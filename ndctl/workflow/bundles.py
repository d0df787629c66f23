"""Bundles as kits that are judged by making their run again: those that ndctl wrote, and folders made by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ndctl.checks.registry import catalogue
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import rack_name, split_node_name
from ndctl.model.status import Group, Level
from ndctl.profiles import load as load_profile
from ndctl.record.bundle import MANIFEST, BundleShelf, read_manifest, read_run
from ndctl.record.hand_made import HandMade
from ndctl.workflow.replay import Kit

_CLUSTER = "bundle"


def is_bundle(folder: Path) -> bool:
    """Whether ndctl wrote it: such a folder has a manifest."""
    return (folder / MANIFEST).exists() or (folder / MANIFEST).is_symlink()


def kit_of_bundle(folder: Path, profile: str | None = None) -> Kit:
    """The kit of a bundle that ndctl wrote; `profile` takes the place of the recorded one. Raises NdctlError (2)."""
    manifest = read_manifest(folder)
    clusters: Mapping[str, Mapping[str, Any]] = manifest.clusters
    if profile is not None:
        load_profile(profile)
        clusters = {
            name: {**part, "inventory": {**part.get("inventory", {}), "profile": profile}}
            for name, part in clusters.items()
        }
    shelf = BundleShelf(folder, manifest)
    return Kit(manifest.run_id, manifest.started, manifest.plan, clusters, shelf, read_run(folder))


def kit_of_hand_made(folder: Path, profile: str | None, now: datetime) -> tuple[Kit, list[str]]:
    """The kit of a folder made by hand, for the passive checks, and what of it nobody asks for.

    A rack is expected whole, as the profile says: of which nothing is here is incomplete. Raises NdctlError (exit 2).
    """
    if profile is None:
        raise NdctlError(
            "bundle.profile",
            f"{folder} has no {MANIFEST}, so it must be said what hardware it is of",
            hint="--profile gb300, for example",
            exit_code=ExitCode.USAGE,
        )
    known = load_profile(profile)
    hand_made = HandMade(folder, {command.id for check in catalogue() for command in check.commands})
    racks: dict[int, list[str]] = {}
    for node in hand_made.nodes:
        place = split_node_name(node)
        racks.setdefault(place[0] if place else 0, []).append(node)
    expected = known.vms_per_rack.value
    part = {
        "inventory": {"path": str(folder), "profile": known.name},
        "racks": [
            {
                "name": rack_name(number) if number else "rack",
                "number": number,
                "expected_nodes": max(expected, len(nodes)),
                "nodes": [{"name": node, "rack": rack_name(number) if number else "rack"} for node in sorted(nodes)],
            }
            for number, nodes in sorted(racks.items())
        ],
    }
    moment = now.astimezone(UTC)
    plan = {
        "level": Level.QUICK.value,
        "groups": [group.value for group in Group],
        "force": False,
        "today": moment.date().isoformat(),
        "token": _CLUSTER,
        "holder": "",
    }
    name = re.sub(r"[^0-9A-Za-z._-]", "-", folder.resolve().name).lstrip("._-")[:80] or _CLUSTER
    return Kit(name, moment.strftime("%Y-%m-%dT%H:%M:%SZ"), plan, {_CLUSTER: part}, hand_made), hand_made.unread
