"""What a process and its children used, read from the kernel (Linux only)."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path


def cpu_s() -> float:
    """User and system seconds of this process and of all children it has waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime + children_cpu_s()


def children_cpu_s() -> float:
    """User and system seconds of all children this process has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def own_peak_mb() -> float:
    """The most memory this process ever held. `ru_maxrss` would not do: it begins with what the parent held."""
    return _status_kb("self", "VmHWM:") / 1024


class TreeMemory(threading.Thread):
    """Watches what all descendants of a process hold together, from another process, so that watching costs the
    watched one nothing. Pages they share are counted for each of them, as `ps` would."""

    def __init__(self, pid: int, every_s: float = 0.1) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._every_s = every_s
        self._over = threading.Event()
        self.peak_mb = 0.0

    def run(self) -> None:
        while not self._over.wait(self._every_s):
            self.peak_mb = max(self.peak_mb, sum(_status_kb(str(pid), "VmRSS:") for pid in below(self._pid)) / 1024)

    def end(self) -> float:
        self._over.set()
        self.join()
        return self.peak_mb


def below(pid: int) -> list[int]:
    """All living descendants of a process, without itself."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += [int(child), *below(int(child))]
    except OSError:
        return found
    return found


def _status_kb(pid: str, key: str) -> int:
    """A line of /proc/PID/status in kB; 0 for a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(key)), 0)
