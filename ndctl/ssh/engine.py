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
from ndctl.ssh.deadlines import RUN_DEADLINE, DeadlineKeeper, Watch
from ndctl.ssh.routes import Routes
from ndctl.ssh.script import in_order
from ndctl.ssh.settings import SshSettings

_NO_ADDRESS = Outcome(
    OutcomeKind.UNREACHABLE, "the node has no address", "is it running? see its state in: ndctl nodes INVENTORY"
)
_NOT_STARTED = Outcome(OutcomeKind.INTERRUPTED, "stopped from here before this node was asked")
_RUN_OVER = Outcome(
    OutcomeKind.TIMED_OUT,
    "the time for the whole run was up before this node was asked",
    "ask fewer nodes in one run, or more at once: --fanout",
)
_CUT_OFF = Outcome(OutcomeKind.INTERRUPTED, "stopped from here while this node was being asked")


def retry_delay(attempt: int, first_s: float, last_s: float, chance: float) -> float:
    """Seconds before attempt `attempt + 1` (attempts count from 0): doubling, capped, halved at most by `chance`.

    chance: 0..1, random, so that nodes dropped together do not come back together
    """
    return min(last_s, first_s * 2.0**attempt) * (0.5 + 0.5 * chance)


class _Plan:
    """Which node is next, over all fan-outs of an Engine: fresh ones first come, first served; retried ones when their
    pause is over. It also counts the threads that work on it, so that none stays when nothing is left."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ready = threading.Condition()
        self._fresh: deque[tuple[_Run, Node, int]] = deque()
        self._waiting: list[tuple[float, int, _Run, Node, int]] = []
        self._order = itertools.count()
        self._open = 0
        self._workers = 0

    def add(self, run: _Run, most_workers: int) -> int:
        """Put a fan-out's nodes in line; how many threads are to be started for them."""
        with self._ready:
            self._fresh.extend((run, node, 0) for node in run.wanted)
            self._open += len(run.wanted)
            more = max(0, min(most_workers, self._open) - self._workers)
            self._workers += more
            self._ready.notify_all()
            return more

    def take(self) -> tuple[_Run, Node, int] | None:
        """The next node and its attempt; None when all are answered, and the thread that asked ends. Waits while only
        pauses are left."""
        with self._ready:
            while self._open:
                if self._waiting and self._waiting[0][0] <= self._clock():
                    _, _, run, node, attempt = heapq.heappop(self._waiting)
                    return run, node, attempt
                if self._fresh:
                    return self._fresh.popleft()
                self._ready.wait(max(0.0, self._waiting[0][0] - self._clock()) if self._waiting else None)
            self._workers -= 1
            return None

    def again(self, run: _Run, node: Node, attempt: int, delay_s: float) -> None:
        with self._ready:
            heapq.heappush(self._waiting, (self._clock() + delay_s, next(self._order), run, node, attempt))
            self._ready.notify()

    def answered(self) -> None:
        with self._ready:
            self._closed(1)

    def drain(self, run: _Run) -> list[Node]:
        """Take out everything of a fan-out that is not running now."""
        with self._ready:
            left = [node for of, node, _ in self._fresh if of is run]
            left += [entry[3] for entry in self._waiting if entry[2] is run]
            if left:
                self._fresh = deque(entry for entry in self._fresh if entry[0] is not run)
                self._waiting = [entry for entry in self._waiting if entry[2] is not run]
                heapq.heapify(self._waiting)
                self._closed(len(left))
            return left

    def _closed(self, nodes: int) -> None:
        self._open -= nodes
        if not self._open:
            self._ready.notify_all()


class _Run:
    """One fan-out: what was asked, who is still waited for, and the deadlines of its connections.

    stoppable: whether `Engine.stop` ends it
    until: when it is over at the latest
    """

    def __init__(
        self,
        requests: Mapping[Node, Sequence[Command]],
        plan: _Plan,
        keeper: DeadlineKeeper,
        stoppable: bool,
        until: float = float("inf"),
    ) -> None:
        self.wanted = {node: in_order(commands) for node, commands in requests.items()}
        self.waiting = set(self.wanted)
        self.answers: queue.SimpleQueue[NodeAnswer] = queue.SimpleQueue()
        self.stoppable = stoppable
        self.over = False
        self.until = until
        self.reason, self.left_out = OutcomeKind.INTERRUPTED.value, _NOT_STARTED
        self._plan = plan
        self._keeper = keeper

    def watch(self) -> Watch:
        return self._keeper.watch(self)

    def halt(self, at: float) -> list[Node]:
        """Nothing new begins, and nothing lives beyond `at`; the nodes that had not begun."""
        left = self._plan.drain(self)
        self._keeper.cut_all_by(at, self.reason, self)
        return left

    def end(self, now: float) -> None:
        """Whoever is still being asked is cut."""
        self.over = True
        if self.waiting:
            self.halt(now)


class Engine:
    """Asks nodes by SSH. A `model.runner.NodeRunner`; one Engine may be asked many times, also from several threads:
    they share its `fanout` connections.

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
        self._plan = _Plan(clock)
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
        """Of what `collect` was called for, ask no further node; those being asked have `grace_s` to finish, then are
        cut. May be called again.

        Safe from a signal handler's thread. An Engine that was stopped collects no more; `ask` still works, for whoever
        has to clean up on the nodes.
        """
        self._stop_at = min(self._stop_at, self._clock() + grace_s)
        self._stopping.set()

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> dict[Node, NodeAnswer]:
        """Ask all nodes side by side; every node has an answer, in the order given. `stop` does not end it."""
        answers = {answer.node: answer for answer in self._fan_out(requests, stoppable=False)}
        return {node: answers[node] for node in requests}

    def collect(
        self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None] | None = None
    ) -> Iterator[NodeAnswer]:
        """The answers as they come, each node once. `on_answer` is called in the consumer's thread, before the yield.

        Leaving the iteration early cuts the nodes that are still being asked.
        """
        for answer in self._fan_out(requests, stoppable=True):
            if on_answer is not None:
                on_answer(answer)
            yield answer

    def _fan_out(self, requests: Mapping[Node, Sequence[Command]], *, stoppable: bool) -> Iterator[NodeAnswer]:
        until = self._clock() + self._settings.run_deadline_s if stoppable else float("inf")
        run = _Run(requests, self._plan, self._keeper, stoppable, until)
        if self._stopped(run):
            for node in run.wanted:
                answer = NodeAnswer(node, _NOT_STARTED)
                self._tell(answer)
                yield answer
            return
        for _ in range(self._plan.add(run, self._settings.fanout)):
            threading.Thread(target=self._work, name="ndctl-ssh", daemon=True).start()
        try:
            while run.waiting:
                for answer in self._next_answers(run):
                    run.waiting.discard(answer.node)
                    self._tell(answer)
                    yield answer
        finally:
            run.end(self._clock())

    def _next_answers(self, run: _Run) -> list[NodeAnswer]:
        """At least one answer, or none when it is time to look at the stop again."""
        patience = min(0.5, max(0.0, run.until - self._clock()))
        overdue = self._clock() >= run.until
        if overdue and not self._stopped(run):
            run.reason, run.left_out = RUN_DEADLINE, _RUN_OVER
        if overdue or self._stopped(run):
            at = min(self._stop_at, run.until)
            not_started = run.halt(at)
            if not_started:
                return [NodeAnswer(node, run.left_out) for node in not_started]
            left = at + 1.0 - self._clock()
            if left <= 0:
                # Whoever did not come back by now waits in a place that cannot be cut, such as a name server.
                return [NodeAnswer(node, _RUN_OVER if overdue else _CUT_OFF) for node in run.waiting]
            patience = min(0.5, left)
        try:
            answer = run.answers.get(timeout=patience)
        except queue.Empty:
            return []
        return [answer] if answer.node in run.waiting else []

    def _stopped(self, run: _Run) -> bool:
        return run.stoppable and self._stopping.is_set()

    def _work(self) -> None:
        settings = self._settings
        while (turn := self._plan.take()) is not None:
            run, node, attempt = turn
            if run.over or self._stopped(run):
                # The collector has not drained it yet; what is stopped begins nothing new.
                run.answers.put(NodeAnswer(node, _NOT_STARTED))
                self._plan.answered()
                continue
            answer, passing = self._visit(run, node)
            late = run.over or self._stopped(run) or self._clock() >= run.until
            if passing and attempt < settings.retries and not late:
                delay = retry_delay(attempt, settings.retry_first_s, settings.retry_last_s, self._chance())
                self._plan.again(run, node, attempt + 1, delay)
                continue
            run.answers.put(answer)
            self._plan.answered()

    def _visit(self, run: _Run, node: Node) -> tuple[NodeAnswer, bool]:
        from ndctl.ssh.visit import visit

        if not node.address:
            return NodeAnswer(node, _NO_ADDRESS), False
        watch = run.watch()
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
