"""Where ndctl keeps what it has learned: one folder per cluster in the user's state directory."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ndctl.inventory.schema import Inventory
from ndctl.inventory.state_place import cluster_place, state_root
from ndctl.model.errors import ExitCode, NdctlError

__all__ = ["cluster_dir", "keeping", "replace_file", "state_root", "write_private"]


@contextmanager
def keeping(path: Path) -> Iterator[None]:
    """What cannot be written below the state directory is the user's to mend: full, read-only, no folder.

    Raises NdctlError (exit 2) that names `path` in place of OSError.
    """
    try:
        yield
    except OSError as error:
        raise NdctlError(
            "state.unusable",
            f"cannot keep {path}: {error.strerror or error}",
            hint=f"make room or give access there, or name another folder: NDCTL_STATE_DIR (now {state_root()})",
            exit_code=ExitCode.USAGE,
        ) from error


def cluster_dir(inventory: Inventory, inventory_path: Path) -> Path:
    """The cluster's folder (`inventory.state_place`), created with mode 0700. Raises NdctlError (exit 2)."""
    folder = cluster_place(inventory, inventory_path)
    with keeping(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step; readable by its owner only. A reader sees the old text or the new, never half.

    Raises NdctlError (exit 2) where it cannot be written.
    """
    with keeping(path):
        replace_file(path, text)


def replace_file(path: Path, text: str, *, private: bool = True) -> None:
    """Write a file in one step: a reader sees the old text or the new, never half. Raises OSError.

    private: readable by its owner only; else a file keeps its mode, and a new one has that of any new file there.
    """
    handle, temporary = _beside(path, private)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _beside(path: Path, private: bool) -> tuple[int, str]:
    """A new file to write, in the folder of `path`: (its descriptor, its name)."""
    if not private and not path.exists():
        # os.open applies umask and the folder's default rights; to ask for the umask would mean to change it.
        temporary = str(path.parent / f".{path.name}.{secrets.token_hex(8)}")
        return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), temporary
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    if not private:
        os.fchmod(handle, stat.S_IMODE(path.stat().st_mode))
    return handle, temporary
