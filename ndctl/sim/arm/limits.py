"""What the rate-limit headers say: buckets that fill again with time, as ARM's and the compute provider's do.

Figures: learn.microsoft.com, "Throttling Resource Manager requests" (per subscription and region: burst 250 reads, 200
writes, 200 deletes; refill 25, 10, 10 a second) and "Troubleshooting API throttling errors - Compute".
"""

from __future__ import annotations

import time
from collections.abc import Callable

_BUCKETS = {"reads": (250, 25.0), "writes": (200, 10.0), "deletes": (200, 10.0)}
_KIND = {"GET": "reads", "HEAD": "reads", "DELETE": "deletes"}
_COMPUTE = (375, 125 / 60)


class Remaining:
    """Counts only: the region throttles nobody by itself (that is the fault `throttle`)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def headers(self, method: str, path: str) -> dict[str, str]:
        kind = _KIND.get(method, "writes")
        left = self._take(kind, *_BUCKETS[kind])
        found = {f"x-ms-ratelimit-remaining-subscription-{kind}": str(left)}
        if "/providers/microsoft.compute/" in path.lower():
            compute = self._take(f"compute-{kind}", *_COMPUTE)
            found["x-ms-ratelimit-remaining-resource"] = f"Microsoft.Compute/{kind.capitalize()}Subscription;{compute}"
        return found

    def _take(self, name: str, burst: int, refill: float) -> int:
        now = self._clock()
        left, at = self._left.get(name, (float(burst), now))
        left = max(0.0, min(float(burst), left + (now - at) * refill) - 1)
        self._left[name] = (left, now)
        return int(left)
