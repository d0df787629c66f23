"""Whether the machine ndctl runs on is overloaded itself: its nodes then seem slow, and are not."""

from __future__ import annotations

import os
from collections.abc import Callable

_OVERLOADED = 2.0  # 1-minute load average for each CPU; a fan-out of ndctl alone stays below it


def client_trouble(
    load: Callable[[], tuple[float, float, float]] = os.getloadavg,
    cpus: Callable[[], int | None] = os.cpu_count,
) -> str:
    """What is wrong with this machine, "" when nothing is, or when it does not tell."""
    try:
        one_minute, count = load()[0], cpus() or 1
    except OSError:
        return ""
    if one_minute < _OVERLOADED * count:
        return ""
    return f"the machine ndctl runs on is overloaded itself (load {one_minute:.1f} on {count} CPUs)"
