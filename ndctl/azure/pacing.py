"""How often Azure lets itself be asked: token buckets and one clock of "not before" for all clients of a subscription.

Azure answers 429 to whoever asks too often, and every worker that finds out by itself makes it worse. So all clients of
one subscription in this process take their turn here: first from the buckets of the published limits, and, once a 429
said Retry-After, none of its kind asks again before that time has passed.

Limits: learn.microsoft.com, "Understand how Azure Resource Manager throttles requests" (per subscription, region and
principal) and "Compute throttling limits" (per subscription and region, and per resource), read 2026-12.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, sleep

DEFAULT_HOLD_S = 5.0  # of a 429 without Retry-After
_LONGEST_NAP_S = 1.0  # a hold that comes while one waits is noticed this soon


@dataclass(frozen=True, slots=True)
class Limit:
    """A bucket that holds `burst` calls and is refilled by `per_minute` of them."""

    burst: float
    per_minute: float


# Whole subscription (in a region).
READS, WRITES, DELETES = "reads", "writes", "deletes"
SCALE_SET_PUTS, SCALE_SET_LISTS = "scale-set PUTs", "scale-set lists"
LIMITS: Mapping[str, Limit] = {
    READS: Limit(250, 25 * 60),
    WRITES: Limit(200, 10 * 60),
    DELETES: Limit(200, 10 * 60),
    SCALE_SET_PUTS: Limit(375, 125),
    SCALE_SET_LISTS: Limit(1080, 360),
}
# One resource of a kind.
LIMITS_OF_ONE: Mapping[str, Limit] = {
    SCALE_SET_PUTS: Limit(12, 4),
    SCALE_SET_LISTS: Limit(30, 10),
    "VM updates": Limit(12, 4),
}


@dataclass(frozen=True, slots=True)
class Turn:
    """What one call takes from the buckets. takes: (kind, "" or the resource's id, how many); narrowest kind last."""

    takes: tuple[tuple[str, str, int], ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind, one, _ in self.takes if not one)


class WaitTooLong(Exception):
    """The turn would come after the deadline. `wait_s`: how long it would have taken; `kind`: whose bucket."""

    def __init__(self, kind: str, wait_s: float) -> None:
        super().__init__(f"{kind}: {wait_s:.0f} s to wait")
        self.kind, self.wait_s = kind, wait_s


class _Bucket:
    """`left` below zero: calls that wait for tokens which are still to come."""

    def __init__(self, limit: Limit, now: float) -> None:
        self.limit, self.left, self.at = limit, limit.burst, now

    def fill(self, now: float, speed: float) -> None:
        rate = self.limit.per_minute / 60 * speed
        self.left = min(self.limit.burst, self.left + max(0.0, now - self.at) * rate)
        self.at = max(self.at, now)

    def wait(self, speed: float) -> float:
        return max(0.0, -self.left) / (self.limit.per_minute / 60 * speed)


class Pace:
    """Shared by threads. `speed`: how many times as fast as Azure the other side lives (an embedded region does)."""

    def __init__(
        self,
        *,
        speed: float = 1.0,
        limits: Mapping[str, Limit] = LIMITS,
        limits_of_one: Mapping[str, Limit] = LIMITS_OF_ONE,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], None] = sleep,
    ) -> None:
        self._speed, self._limits, self._limits_of_one = speed, limits, limits_of_one
        self.clock, self._sleep = clock, sleep
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._not_before: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, turn: Turn, deadline: float) -> float:
        """Wait for one's turn; seconds waited. Raises WaitTooLong, with nothing taken, when it comes after `deadline`
        (a time of `clock`)."""
        begun = self.clock()
        with self._lock:
            kind, ready = self._reserve(turn, begun)
            if ready > deadline:
                self._give_back(turn)
                raise WaitTooLong(kind, ready - begun)
        while True:
            with self._lock:
                # Another caller may have been told to wait meanwhile.
                held = max((self._not_before.get(one, 0.0) for one in turn.kinds), default=0.0)
            now = self.clock()
            until = max(ready, held)
            if until > deadline:
                with self._lock:
                    self._give_back(turn)
                raise WaitTooLong(kind or turn.kinds[-1], until - now)
            if now >= until:
                return now - begun
            self._sleep(min(until - now, _LONGEST_NAP_S))

    def hold(self, kinds: Sequence[str], seconds: float) -> None:
        """Nobody asks for these kinds for so long; afterwards they go on at the rate of refilling, not all at once."""
        with self._lock:
            now = self.clock()
            for kind in kinds:
                self._not_before[kind] = max(self._not_before.get(kind, 0.0), now + seconds)
                bucket = self._bucket(kind, "", now)
                if bucket is not None:
                    bucket.fill(now, self._speed)
                    bucket.left = min(bucket.left, 0.0)
                    bucket.at = max(bucket.at, now + seconds)

    def _reserve(self, turn: Turn, now: float) -> tuple[str, float]:
        """(whose bucket makes one wait the longest, when the turn comes)."""
        slowest, ready = "", now
        for kind, one, count in turn.takes:
            bucket = self._bucket(kind, one, now)
            if bucket is None:
                continue
            bucket.fill(now, self._speed)
            bucket.left -= count
            at = bucket.at + bucket.wait(self._speed) if bucket.left < 0 else now
            if at > ready:
                slowest, ready = kind, at
        return slowest, ready

    def _give_back(self, turn: Turn) -> None:
        for kind, one, count in turn.takes:
            bucket = self._buckets.get((kind, one))
            if bucket is not None:
                bucket.left = min(bucket.limit.burst, bucket.left + count)

    def _bucket(self, kind: str, one: str, now: float) -> _Bucket | None:
        limit = (self._limits_of_one if one else self._limits).get(kind)
        if limit is None:
            return None
        return self._buckets.setdefault((kind, one), _Bucket(limit, now))


_PACES: dict[tuple[str, str], Pace] = {}
_PACES_LOCK = threading.Lock()


def pace_for(endpoint: str, subscription: str, speed: float = 1.0) -> Pace:
    """The one pace of a subscription in this process."""
    with _PACES_LOCK:
        return _PACES.setdefault((endpoint.casefold(), subscription.casefold()), Pace(speed=speed))
