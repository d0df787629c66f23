"""Where the record lies by default, and whether that place is one that several hosts share."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ndctl.model.errors import ExitCode, NdctlError

MOUNTS = Path("/proc/self/mountinfo")
_NETWORK_TYPES = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "gpfs", "lustre", "nfs", "nfs4", "ocfs2", "smb3", "smbfs", "vboxsf")
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """`$NDCTL_STATE_DIR/runs.sqlite`, else the XDG state directory's ndctl folder. Nothing is created."""
    try:
        if told := environ.get("NDCTL_STATE_DIR"):
            return Path(told).expanduser() / "runs.sqlite"
        xdg = environ.get("XDG_STATE_HOME")
        return (Path(xdg) if xdg else Path.home() / ".local" / "state") / "ndctl" / "runs.sqlite"
    except RuntimeError as error:  # no HOME and no entry in the password file, as in some containers
        raise NdctlError(
            "record.no-home",
            f"there is no place to keep runs: {error}",
            hint="set NDCTL_STATE_DIR, or name a file with --record PATH",
            exit_code=ExitCode.USAGE,
        ) from error


def on_network(path: Path, mounts: Path = MOUNTS) -> bool:
    """Whether other hosts can write the same file, as far as the kernel's list of mounts tells (Linux).

    SQLite's write-ahead log needs memory shared by all writers, which two hosts do not have:
    https://sqlite.org/wal.html. Home directories of clusters are often on NFS. A FUSE file system is taken for one.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    place = path.resolve()
    best, kind = -1, ""
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        mounted = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        # Of two file systems on one mount point the later one is what is seen.
        if place.is_relative_to(mounted) and len(mounted.parts) >= best:
            best, kind = len(mounted.parts), after.split(" ")[0]
    return kind in _NETWORK_TYPES or kind.startswith("fuse")
