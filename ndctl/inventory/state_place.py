"""Where what was learned of a cluster is kept: names of folders only, nothing is created here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from ndctl.inventory.schema import CustomCloud, Inventory


def state_root(environ: Mapping[str, str] = os.environ) -> Path:
    """$NDCTL_STATE_DIR, else $XDG_STATE_HOME/ndctl, else ~/.local/state/ndctl."""
    if told := environ.get("NDCTL_STATE_DIR"):
        return Path(told).expanduser()
    if xdg := environ.get("XDG_STATE_HOME"):
        return Path(xdg) / "ndctl"
    return Path.home() / ".local" / "state" / "ndctl"


def cluster_place(inventory: Inventory, inventory_path: Path) -> Path:
    """The cluster's folder.

    Clusters of one name in different subscriptions, groups or clouds do not share a folder; the same cluster from
    another copy of the inventory file does.
    """
    cloud = inventory.cloud.endpoint if isinstance(inventory.cloud, CustomCloud) else inventory.cloud
    if inventory.static is None:
        place = "|".join((cloud, inventory.subscription or "", (inventory.resource_group or "").casefold()))
    else:
        place = f"static|{inventory_path.resolve()}"
    mark = hashlib.sha256(f"{place}|{inventory.cluster}".encode()).hexdigest()[:8]
    return state_root() / "clusters" / f"{inventory.cluster}-{mark}"
