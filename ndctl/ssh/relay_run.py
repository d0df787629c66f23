"""One fan-out of a relay: who is still waited for, what is under way, and how it ends before its time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ndctl.model.answers import Command, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node
from ndctl.ssh.deadlines import RUN_DEADLINE, DeadlineKeeper
from ndctl.ssh.relay_pass import Pass
from ndctl.ssh.script import in_order

Wanted = dict[Node, tuple[Command, ...]]

_NOT_STARTED = Outcome(OutcomeKind.INTERRUPTED, "stopped from here before this node was asked")
_RUN_OVER = Outcome(
    OutcomeKind.TIMED_OUT,
    "the time for the whole run was up before this node was asked",
    "ask fewer nodes in one run, or more at once: --fanout",
)
_CUT_OFF = Outcome(OutcomeKind.INTERRUPTED, "stopped from here while this node was being asked")


class Stop:
    """Whether somebody stopped everything, and from when on nothing lives any more."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._stopping = threading.Event()
        self.at = float("inf")

    def within(self, grace_s: float) -> None:
        self.at = min(self.at, self._clock() + grace_s)
        self._stopping.set()

    @property
    def asked(self) -> bool:
        return self._stopping.is_set()

    @property
    def grace_s(self) -> float:
        return max(0.0, self.at - self._clock())


class Run:
    """until: when it is over at the latest; left_out: what becomes of who is not asked any more."""

    def __init__(
        self,
        requests: Mapping[Node, Sequence[Command]],
        until: float,
        stop: Stop,
        keeper: DeadlineKeeper,
        clock: Callable[[], float],
    ) -> None:
        self.wanted: Wanted = {node: in_order(commands) for node, commands in requests.items()}
        self.waiting = set(self.wanted)
        self.answers: queue.SimpleQueue[NodeAnswer] = queue.SimpleQueue()
        self.left_out = _NOT_STARTED
        self._until = until
        self._stop = stop
        self._keeper = keeper
        self._clock = clock
        self._over = False
        self._passes: set[Pass] = set()
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        return self._over or self._stop.asked

    @contextmanager
    def under_way(self, one: Pass) -> Iterator[None]:
        with self._lock:
            self._passes.add(one)
        if self.ended:
            one.halt()
        try:
            yield
        finally:
            with self._lock:
                self._passes.discard(one)

    def next_answers(self) -> list[NodeAnswer]:
        """At least one answer, or none when it is time to look at the stop again."""
        patience = min(0.5, max(0.0, self._until - self._clock()))
        overdue = self._clock() >= self._until and not self._stop.asked
        if overdue:
            self._over, self.left_out = True, _RUN_OVER
        if overdue or self._stop.asked:
            at = min(self._stop.at, self._until)
            self._halt(at, RUN_DEADLINE if overdue else OutcomeKind.INTERRUPTED.value)
            left = at + 1.0 - self._clock()
            if left <= 0:
                return [NodeAnswer(node, _RUN_OVER if overdue else _CUT_OFF) for node in self.waiting]
            patience = min(0.5, left)
        try:
            answer = self.answers.get(timeout=patience)
        except queue.Empty:
            return []
        return [answer] if answer.node in self.waiting else []

    def leave(self) -> None:
        """Nobody listens any more."""
        self._over = True
        if self.waiting:
            self._halt(self._clock(), OutcomeKind.INTERRUPTED.value)

    def _halt(self, at: float, reason: str) -> None:
        """Nothing new begins, and nothing lives beyond `at`."""
        with self._lock:
            passes = list(self._passes)
        for one in passes:
            one.halt()
        self._keeper.cut_all_by(at, reason, self)
