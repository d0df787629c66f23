"""The fan-out: many nodes side by side in one process, every node answered, nothing raised for a node's sake."""

from __future__ import annotations

import heapq
import itertools
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from ndctl.model.answers import Command, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.places import Node
from ndctl.ssh.deadlines import DeadlineKeeper
from ndctl.ssh.routes import Routes
from ndctl.ssh.script import in_order
from ndctl.ssh.settings import SshSettings

_NO_ADDRESS = Outcome(
    OutcomeKind.UNREACHABLE, "the node has no address", "is it running? see its state in: ndctl nodes INVENTORY"
)
_NOT_STARTED = Outcome(OutcomeKind.INTERRUPTED, "stopped from here before this node was asked")
_CUT_OFF = Outcome(OutcomeKind.INTERRUPTED, "stopped from here while this node was being asked")


def retry_delay(attempt: int, first_s: float, last_s: float, chance: float) -> float:
    """Seconds before attempt `attempt + 1` (attempts count from 0): doubling, capped, halved at most by `chance`.

    chance: 0..1, random, so that nodes dropped together do not come back together
    """
    return min(last_s, first_s * 2.0**attempt) * (0.5 + 0.5 * chance)


class _Plan:
    """Which node is next: fresh ones first come, first served; retried ones when their pause is over."""

    def __init__(self, requests: Mapping[Node, tuple[Command, ...]], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ready = threading.Condition()
        self._fresh: deque[tuple[Node, int]] = deque((node, 0) for node in requests)
        self._waiting: list[tuple[float, int, Node, int]] = []
        self._order = itertools.count()
        self._open = len(requests)

    def take(self) -> tuple[Node, int] | None:
        """The next node and its attempt; None when all are answered. Waits while only pauses are left."""
        with self._ready:
            while self._open:
                if self._waiting and self._waiting[0][0] <= self._clock():
                    _, _, node, attempt = heapq.heappop(self._waiting)
                    return node, attempt
                if self._fresh:
                    return self._fresh.popleft()
                self._ready.wait(max(0.0, self._waiting[0][0] - self._clock()) if self._waiting else None)
            return None

    def again(self, node: Node, attempt: int, delay_s: float) -> None:
        with self._ready:
            heapq.heappush(self._waiting, (self._clock() + delay_s, next(self._order), node, attempt))
            self._ready.notify()

    def answered(self) -> None:
        with self._ready:
            self._open -= 1
            if not self._open:
                self._ready.notify_all()

    def drain(self) -> list[Node]:
        """Take out everything that is not running now."""
        with self._ready:
            left = [node for node, _ in self._fresh] + [entry[2] for entry in self._waiting]
            self._fresh.clear()
            self._waiting.clear()
            return left


class Engine:
    """Asks nodes by SSH. A `model.runner.NodeRunner`; one Engine may be asked many times, also from several threads.

    Keys and known_hosts are read when the Engine is made. Close it (it is a context manager) to end shared logins
    on jump hosts.
    """

    def __init__(
        self,
        settings: SshSettings,
        *,
        events: EventSink = ignore_events,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._events = events
        self._clock = clock
        self._chance = chance
        self._keeper = DeadlineKeeper(clock)
        self._routes = Routes(settings, self._keeper, clock)
        self._stop_at: float | None = None
        self._stopping = threading.Event()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def user(self) -> str:
        return self._settings.user

    @property
    def remarks(self) -> tuple[str, ...]:
        """Lines of ssh_config and known_hosts that were passed over, for -v."""
        return self._routes.remarks

    def close(self) -> None:
        self._routes.close()
        self._keeper.close()

    def stop(self, grace_s: float = 5.0) -> None:
        """Ask no further node; those being asked have `grace_s` to finish, then are cut. May be called again.

        Safe from a signal handler's thread. An Engine that was stopped stays stopped.
        """
        at = self._clock() + grace_s
        self._stop_at = at if self._stop_at is None else min(self._stop_at, at)
        self._stopping.set()

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> dict[Node, NodeAnswer]:
        """Ask all nodes side by side; every node has an answer, in the order given."""
        answers = {answer.node: answer for answer in self.collect(requests)}
        return {node: answers[node] for node in requests}

    def collect(
        self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None] | None = None
    ) -> Iterator[NodeAnswer]:
        """The answers as they come, each node once. `on_answer` is called in the consumer's thread, before the yield.

        Leaving the iteration early stops the nodes that are still being asked.
        """
        wanted = {node: in_order(commands) for node, commands in requests.items()}
        waiting = set(wanted)
        answers: queue.SimpleQueue[NodeAnswer] = queue.SimpleQueue()
        plan = _Plan(wanted, self._clock)
        for number in range(min(self._settings.fanout, len(wanted))):
            threading.Thread(
                target=self._work, args=(plan, wanted, answers), name=f"ndctl-ssh-{number}", daemon=True
            ).start()
        try:
            while waiting:
                for answer in self._next_answers(plan, answers, waiting):
                    waiting.discard(answer.node)
                    self._tell(answer)
                    if on_answer is not None:
                        on_answer(answer)
                    yield answer
        finally:
            if waiting:
                self.stop(0)
                self._halt(plan)

    def _next_answers(
        self, plan: _Plan, answers: queue.SimpleQueue[NodeAnswer], waiting: set[Node]
    ) -> list[NodeAnswer]:
        """At least one answer, or none when it is time to look at the stop again."""
        if not self._stopping.is_set():
            try:
                answer = answers.get(timeout=0.5)
            except queue.Empty:
                return []
            return [answer] if answer.node in waiting else []
        not_started = [NodeAnswer(node, _NOT_STARTED) for node in self._halt(plan)]
        if not_started:
            return not_started
        left = (self._stop_at or 0.0) + 1.0 - self._clock()
        try:
            answer = answers.get(timeout=min(0.5, max(0.01, left)))
            return [answer] if answer.node in waiting else []
        except queue.Empty:
            # Whoever did not come back now waits in a place that cannot be cut, such as a name server.
            return [NodeAnswer(node, _CUT_OFF) for node in waiting] if left <= 0 else []

    def _halt(self, plan: _Plan) -> list[Node]:
        left = plan.drain()
        for _ in left:
            plan.answered()
        self._keeper.cut_all_by(self._stop_at or self._clock(), OutcomeKind.INTERRUPTED.value)
        return left

    def _work(
        self, plan: _Plan, wanted: Mapping[Node, tuple[Command, ...]], answers: queue.SimpleQueue[NodeAnswer]
    ) -> None:
        while (turn := plan.take()) is not None:
            node, attempt = turn
            answer, passing = self._visit(node, wanted[node])
            if passing and attempt < self._settings.retries and not self._stopping.is_set():
                settings = self._settings
                delay = retry_delay(attempt, settings.retry_first_s, settings.retry_last_s, self._chance())
                plan.again(node, attempt + 1, delay)
                continue
            answers.put(answer)
            plan.answered()

    def _visit(self, node: Node, commands: tuple[Command, ...]) -> tuple[NodeAnswer, bool]:
        from ndctl.ssh.visit import visit

        if not node.address:
            return NodeAnswer(node, _NO_ADDRESS), False
        watch = self._keeper.watch()
        try:
            target, dial = self._routes.to(node)
            return visit(
                node,
                target,
                commands,
                dial=dial,
                watch=watch,
                grace_s=self._settings.command_grace_s,
                node_deadline_s=self._settings.node_deadline_s,
                clock=self._clock,
            )
        except Exception as error:
            # A fault of ndctl's own must not leave the fan-out waiting for a node for ever, nor pass for an answer.
            watch.close()
            kind = OutcomeKind.CONNECTION_LOST
            return NodeAnswer(node, Outcome(kind, f"internal error: {type(error).__name__}: {error}")), False

    def _tell(self, answer: NodeAnswer) -> None:
        outcome = answer.outcome
        self._events(
            Event(
                "collect",
                "done" if outcome.ok else "failed",
                rack=answer.node.rack,
                node=answer.node.name,
                message=outcome.detail,
                data={"outcome": outcome.kind.value, "seconds": outcome.seconds, "answers": len(answer.results)},
            )
        )
