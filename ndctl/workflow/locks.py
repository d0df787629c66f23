"""One writer per cluster: a file lock that says who holds it. The system drops it when its holder ends."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.lock_holder import holder_name
from ndctl.workflow.state_dir import keeping

_A_LOOK_S = 0.05


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def cluster_lock(folder: Path, cluster: str, doing: str, now: Callable[[], datetime] = _now) -> Iterator[None]:
    """Hold the cluster's lock while `doing` ("deploy", "destroy").

    Raises NdctlError (exit 10) that names the holder when another process has it, exit 2 when no file can be kept.
    """
    path = folder / "lock"
    with ExitStack() as open_files:
        with keeping(path):
            file = open_files.enter_context(path.open("a+b", buffering=0))
        try:
            _lock(file)
        except BlockingIOError:
            file.seek(0)
            raise _held(cluster, file.read().decode(errors="replace")) from None
        holder = {
            "doing": doing,
            "user": _user(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": now().isoformat(timespec="seconds"),
        }
        with keeping(path):
            file.truncate(0)
            file.write(json.dumps(holder).encode())
        try:
            yield
        finally:
            file.truncate(0)


def lock_of(folder: Path) -> str:
    """Who holds the cluster's lock file, "" when nobody does. Changes nothing. A holder of this machine that was killed
    holds nothing. A text of ours is believed, so that the lock need not be tried, which would be in the way of whoever
    takes it at that moment; of any other text it is (`cluster_lock` asks twice)."""
    try:
        text = (folder / "lock").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # no such file: nobody ever did
    if not text:
        return ""
    try:
        holder = json.loads(text)
        if holder["host"] == socket.gethostname():
            os.kill(int(holder["pid"]), 0)
    except (ProcessLookupError, OverflowError):
        return ""
    except PermissionError:
        pass  # another user's process
    except (ValueError, KeyError, TypeError):
        return _who(text)[0] if _is_locked(folder / "lock") else ""
    return _who(text)[0]


def _is_locked(path: Path) -> bool:
    """Whether a process has the file locked, whatever stands in it."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _lock(file: BinaryIO) -> None:
    """Raises BlockingIOError. Asked again after a moment: `lock_of` may have been looking."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(_A_LOOK_S)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def this_holder() -> str:
    """user@host, as it stands in locks and audit lines."""
    return holder_name(_user(), socket.gethostname())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _held(cluster: str, text: str) -> NdctlError:
    who, hint = _who(text)
    return NdctlError("lock.held", f"{cluster} is locked: {who}", hint=hint, exit_code=ExitCode.LOCKED_OR_STALE)


def _who(text: str) -> tuple[str, str]:
    """Who holds it, and what to do about it."""
    try:
        holder = json.loads(text)
        who = "{doing} by {user} on {host}, process {pid}, since {since}".format(**holder)
        return who, f"wait until it has ended, or look at it: ps -p {holder['pid']}"
    except (ValueError, KeyError, TypeError):
        return "another ndctl", "wait until it has ended"
