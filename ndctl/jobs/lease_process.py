"""Which process holds a lease, so that its machine can tell one that was killed from one that works.

Text: mark, pid and start time (clock ticks since boot), one blank between them. The mark is of one boot of one machine
and one process space: only where it is the same does the pid mean anything. Source: proc(5), /proc/PID/stat.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

_TEXT = re.compile(r"([0-9a-f]{16}) ([1-9]\d{0,9}) (\d{1,20})")
_DEAD = "ZX"
_START_AFTER_STATE = 19


def this_process() -> str:
    """ "" where it cannot be told; a lease without it lasts its time."""
    told = _state_and_start(os.getpid())
    mark = machine_mark()
    return f"{mark} {os.getpid()} {told[1]}" if told and mark else ""


def is_gone(text: str) -> bool:
    """Whether it was a process of this machine that has ended. Of another machine, and in doubt, False."""
    match = _TEXT.fullmatch(text.strip())
    if match is None or match[1] != machine_mark():
        return False
    try:
        os.kill(int(match[2]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    told = _state_and_start(int(match[2]))
    return told is not None and (told[0] in _DEAD or told[1] != match[3])


def _state_and_start(pid: int) -> tuple[str, str] | None:
    """None where it is hidden. The name in the second field may hold blanks and brackets."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return fields[0], fields[_START_AFTER_STATE]
    except (OSError, IndexError):
        return None


def machine_mark() -> str:
    """16 digits of this boot of this machine and its process space; "" where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return ""
    return hashlib.sha256(f"{boot}|{space}".encode()).hexdigest()[:16]
