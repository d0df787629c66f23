"""Where ndctl keeps what it has learned: one folder per cluster in the user's state directory."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ndctl.inventory.schema import CustomCloud, Inventory


def state_root(environ: Mapping[str, str] = os.environ) -> Path:
    """$NDCTL_STATE_DIR, else $XDG_STATE_HOME/ndctl, else ~/.local/state/ndctl. Not created."""
    if told := environ.get("NDCTL_STATE_DIR"):
        return Path(told).expanduser()
    if xdg := environ.get("XDG_STATE_HOME"):
        return Path(xdg) / "ndctl"
    return Path.home() / ".local" / "state" / "ndctl"


def cluster_dir(inventory: Inventory, inventory_path: Path) -> Path:
    """The cluster's folder, created with mode 0700.

    Clusters of one name in different subscriptions, groups or clouds do not share a folder; the same cluster from
    another copy of the inventory file does.
    """
    cloud = inventory.cloud.endpoint if isinstance(inventory.cloud, CustomCloud) else inventory.cloud
    if inventory.static is None:
        place = "|".join((cloud, inventory.subscription or "", (inventory.resource_group or "").casefold()))
    else:
        place = f"static|{inventory_path.resolve()}"
    mark = hashlib.sha256(f"{place}|{inventory.cluster}".encode()).hexdigest()[:8]
    folder = state_root() / "clusters" / f"{inventory.cluster}-{mark}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step; readable by its owner only. A reader sees the old text or the new, never half."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:  # mkstemp gives mode 0600
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
