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


class _Run:
    """One fan-out: what was asked, who is still waited for, and the deadlines of its connections."""

    def __init__(self, requests: Mapping[Node, Sequence[Command]], clock: Callable[[], float]) -> None:
        self.wanted = {node: in_order(commands) for node, commands in requests.items()}
        self.waiting = set(self.wanted)
        self.plan = _Plan(self.wanted, clock)
        self.answers: queue.SimpleQueue[NodeAnswer] = queue.SimpleQueue()
        self.keeper = DeadlineKeeper(clock)
        self.over = False

    def halt(self, at: float) -> list[Node]:
        """Nothing new begins, and nothing lives beyond `at`; the nodes that had not begun."""
        left = self.plan.drain()
        for _ in left:
            self.plan.answered()
        self.keeper.cut_all_by(at, OutcomeKind.INTERRUPTED.value)
        return left

    def end(self, now: float) -> None:
        """Free everything; whoever is still being asked is cut."""
        self.over = True
        if self.waiting:
            self.halt(now)
        self.keeper.close()


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
        self._stop_at = float("inf")
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
        self._stop_at = min(self._stop_at, self._clock() + grace_s)
        self._stopping.set()

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> dict[Node, NodeAnswer]:
        """Ask all nodes side by side; every node has an answer, in the order given."""
        answers = {answer.node: answer for answer in self.collect(requests)}
        return {node: answers[node] for node in requests}

    def collect(
        self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None] | None = None
    ) -> Iterator[NodeAnswer]:
        """The answers as they come, each node once. `on_answer` is called in the consumer's thread, before the yield.

        Leaving the iteration early cuts the nodes that are still being asked.
        """
        run = _Run(requests, self._clock)
        if not self._stopping.is_set():
            for number in range(min(self._settings.fanout, len(run.wanted))):
                threading.Thread(target=self._work, args=(run,), name=f"ndctl-ssh-{number}", daemon=True).start()
        try:
            while run.waiting:
                for answer in self._next_answers(run):
                    run.waiting.discard(answer.node)
                    self._tell(answer)
                    if on_answer is not None:
                        on_answer(answer)
                    yield answer
        finally:
            run.end(self._clock())

    def _next_answers(self, run: _Run) -> list[NodeAnswer]:
        """At least one answer, or none when it is time to look at the stop again."""
        patience = 0.5
        if self._stopping.is_set():
            not_started = run.halt(self._stop_at)
            if not_started:
                return [NodeAnswer(node, _NOT_STARTED) for node in not_started]
            left = self._stop_at + 1.0 - self._clock()
            if left <= 0:
                # Whoever did not come back by now waits in a place that cannot be cut, such as a name server.
                return [NodeAnswer(node, _CUT_OFF) for node in run.waiting]
            patience = min(patience, left)
        try:
            answer = run.answers.get(timeout=patience)
        except queue.Empty:
            return []
        return [answer] if answer.node in run.waiting else []

    def _work(self, run: _Run) -> None:
        settings = self._settings
        while (turn := run.plan.take()) is not None:
            node, attempt = turn
            answer, passing = self._visit(run, node)
            if passing and attempt < settings.retries and not (run.over or self._stopping.is_set()):
                delay = retry_delay(attempt, settings.retry_first_s, settings.retry_last_s, self._chance())
                run.plan.again(node, attempt + 1, delay)
                continue
            run.answers.put(answer)
            run.plan.answered()

    def _visit(self, run: _Run, node: Node) -> tuple[NodeAnswer, bool]:
        from ndctl.ssh.visit import visit

        if not node.address:
            return NodeAnswer(node, _NO_ADDRESS), False
        watch = run.keeper.watch()
        try:
            target, dial = self._routes.to(node)
            return visit(
                node,
                target,
                run.wanted[node],
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
