"""Where ndctl keeps what it has learned: one folder per cluster in the user's state directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ndctl.inventory.schema import Inventory
from ndctl.inventory.state_place import cluster_place, state_root

__all__ = ["cluster_dir", "state_root", "write_private"]


def cluster_dir(inventory: Inventory, inventory_path: Path) -> Path:
    """The cluster's folder (`inventory.state_place`), created with mode 0700."""
    folder = cluster_place(inventory, inventory_path)
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
