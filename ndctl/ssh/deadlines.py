"""Deadlines that hold whatever a library is waiting for: one thread that cuts connections whose time is up.

paramiko waits without limit in several places. Cutting the socket wakes all of them, so every phase of every
connection is bounded by one mechanism.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

Clock = Callable[[], float]
RUN_DEADLINE = "the time for the whole run"


class Watch:
    """One connection's current deadline. `expired` names the phase that ran out of time, "" while none did."""

    __slots__ = ("_cut", "_keeper", "at", "closed", "expired", "group", "phase")

    def __init__(self, keeper: DeadlineKeeper, group: object = None) -> None:
        self.group = group
        self._keeper = keeper
        self._cut: list[Callable[[], None]] = []
        self.at: float | None = None
        self.phase = ""
        self.expired = ""
        self.closed = False

    def set(self, phase: str, at: float) -> None:
        """From now on the connection is cut at `at` (monotonic seconds), and `phase` is what was too slow."""
        self._keeper.schedule(self, phase, at)

    def on_expiry(self, cut: Callable[[], None]) -> None:
        """Call `cut` when time is up; at once if it is up already. Several are called newest first."""
        if not self._keeper.add_cut(self, cut):
            cut()

    def close(self) -> None:
        self.closed = True
        self.at = None
        self._cut.clear()


class DeadlineKeeper:
    """The thread. Start it by the first `watch()`; `close()` ends it."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._ready = threading.Condition()
        self._heap: list[tuple[float, int, Watch]] = []
        self._live: set[Watch] = set()
        self._count = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, group: object = None) -> Watch:
        """A new connection's watch; `group` is what `cut_all_by` may name."""
        with self._ready:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ndctl-deadlines", daemon=True)
                self._thread.start()
            return Watch(self, group)

    def schedule(self, watch: Watch, phase: str, at: float) -> None:
        with self._ready:
            if watch.expired or watch.closed:
                return
            watch.phase = phase
            # A later deadline needs no new entry: the old one looks again when it comes up.
            needs_entry = watch not in self._live or (watch.at is not None and at < watch.at)
            watch.at = at
            if needs_entry:
                self._live.add(watch)
                heapq.heappush(self._heap, (at, next(self._count), watch))
                if self._heap[0][2] is watch:
                    self._ready.notify()

    def add_cut(self, watch: Watch, cut: Callable[[], None]) -> bool:
        with self._ready:
            if watch.expired:
                return False
            watch._cut.append(cut)
            return True

    def cut_all_by(self, at: float, phase: str, group: object = None) -> None:
        """No watched connection (of `group`; None: of all) lives longer than `at`; those cut by it say `phase`."""
        with self._ready:
            for watch in self._live:
                if (group is None or watch.group is group) and watch.at is not None and watch.at > at:
                    watch.at, watch.phase = at, phase
                    heapq.heappush(self._heap, (at, next(self._count), watch))
            self._ready.notify()

    def close(self) -> None:
        """End the thread; what is due by now is cut first."""
        with self._ready:
            self._closed = True
            self._ready.notify()

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._heap or self._heap[0][0] > self._clock():
                    if self._closed:
                        return
                    self._ready.wait(self._heap[0][0] - self._clock() if self._heap else None)
                _, _, watch = heapq.heappop(self._heap)
                if watch.at is None or watch.expired:
                    self._live.discard(watch)
                    continue
                if watch.at > self._clock():
                    heapq.heappush(self._heap, (watch.at, next(self._count), watch))
                    continue
                watch.expired = watch.phase
                self._live.discard(watch)
                cuts = list(reversed(watch._cut))
            for cut in cuts:
                cut()
