"""Asking a rack through one of its nodes: for each rack one connection, and its head asks the others from there.

`collect` is relayed; `ask` is not: who starts something on several nodes at once needs all of them at the same moment.
What a head cannot find out of a peer (refused, unreachable, a login or a host key that does not fit) is asked directly,
so that the answer is the one a direct visit gives, and no peer is blamed for what lies between it and its head.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from ndctl.model.answers import Command, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.places import Node
from ndctl.ssh.deadlines import RUN_DEADLINE, DeadlineKeeper
from ndctl.ssh.engine import Engine
from ndctl.ssh.relay_cleanup import remove_keys
from ndctl.ssh.relay_order import Terms
from ndctl.ssh.relay_pass import Ended, Pass
from ndctl.ssh.relay_peer import Peer
from ndctl.ssh.relay_rack import FEWEST, KEY_MINUTES, Candidate, Rack, RunKey, candidates
from ndctl.ssh.routes import Routes
from ndctl.ssh.script import in_order
from ndctl.ssh.settings import SshSettings

_PUTTING_AWAY_S = 5.0
_HEADS = 2  # a rack's first head and the one that takes its place
_NOT_STARTED = Outcome(OutcomeKind.INTERRUPTED, "stopped from here before this node was asked")
_RUN_OVER = Outcome(
    OutcomeKind.TIMED_OUT,
    "the time for the whole run was up before this node was asked",
    "ask fewer nodes in one run, or more at once: --fanout",
)
_CUT_OFF = Outcome(OutcomeKind.INTERRUPTED, "stopped from here while this node was being asked")
_Wanted = dict[Node, tuple[Command, ...]]


class _Run:
    """One fan-out: who is waited for, and the passes under way. until: when it is over at the latest."""

    def __init__(self, requests: Mapping[Node, Sequence[Command]], until: float) -> None:
        self.wanted: _Wanted = {node: in_order(commands) for node, commands in requests.items()}
        self.waiting = set(self.wanted)
        self.answers: queue.SimpleQueue[NodeAnswer] = queue.SimpleQueue()
        self.passes: set[Pass] = set()
        self.over = False
        self.until = until
        self.left_out = _NOT_STARTED


class RelayEngine:
    """A `model.runner.NodeRunner` with the face of `ssh.engine.Engine`; close it to take its keys off the nodes.

    single: little is asked, so no ephemeral key is put on the nodes: every login is signed by the client's agent
    """

    def __init__(
        self,
        settings: SshSettings,
        *,
        single: bool = False,
        events: EventSink = ignore_events,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._single = single
        self._events = events
        self._clock = clock
        self._chance = chance
        self._keeper = DeadlineKeeper(clock)
        self._routes = Routes(settings, self._keeper, clock)
        self._heads = threading.BoundedSemaphore(settings.fanout)
        self._lock = threading.Lock()
        self._racks: dict[str, Rack] = {}
        self._engine: Engine | None = None
        self._remarks: list[str] = []
        self._stop_at = float("inf")
        self._stopping = threading.Event()

    def __enter__(self) -> RelayEngine:
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

    @property
    def relay_remarks(self) -> tuple[str, ...]:
        """What could not be relayed, or not be removed, and why; told as events too."""
        with self._lock:
            return tuple(self._remarks)

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> dict[Node, NodeAnswer]:
        """Ask all nodes directly, side by side; every node has an answer, in the order given; see `Engine.ask`."""
        return self._direct().ask(requests)

    def collect(
        self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None] | None = None
    ) -> Iterator[NodeAnswer]:
        """The answers as they come, each node once; see `Engine.collect`."""
        run = _Run(requests, self._clock() + self._settings.run_deadline_s)
        racks: dict[str, _Wanted] = {}
        for node, commands in run.wanted.items():
            racks.setdefault(node.rack, {})[node] = commands
        if not self._stopping.is_set():
            for name, wanted in racks.items():
                threading.Thread(
                    target=self._ask_rack, args=(run, name, wanted), name="ndctl-rack", daemon=True
                ).start()
        try:
            while run.waiting:
                for answer in self._next_answers(run):
                    run.waiting.discard(answer.node)
                    self._tell(answer)
                    if on_answer is not None:
                        on_answer(answer)
                    yield answer
        finally:
            run.over = True
            if run.waiting:
                self._halt(run, self._clock())

    def stop(self, grace_s: float = 5.0) -> None:
        """As `Engine.stop`: `collect` asks no further node, `ask` still works."""
        self._stop_at = min(self._stop_at, self._clock() + grace_s)
        self._stopping.set()
        with self._lock:
            engine = self._engine
        if engine is not None:
            engine.stop(grace_s)

    def close(self) -> None:
        """Take what this run put on the nodes off them, also after `stop`; then end all connections."""
        try:
            self._wait_for_heads()
            with self._lock:
                keys = [key for rack in self._racks.values() for key in rack.take_keys()]
            if keys:
                self._remove(keys)
        finally:
            self._routes.close()
            self._keeper.close()
            with self._lock:
                engine, self._engine = self._engine, None
            if engine is not None:
                engine.close()

    def _wait_for_heads(self) -> None:
        """Every peer may have been answered while its head still puts things away."""
        until = self._clock() + _PUTTING_AWAY_S
        with self._lock:
            racks = list(self._racks.values())
        for rack in racks:
            if rack.turn.acquire(timeout=max(0.0, until - self._clock())):
                rack.turn.release()

    def _direct(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = Engine(self._settings, clock=self._clock, chance=self._chance)
                if self._stopping.is_set():
                    self._engine.stop(max(0.0, self._stop_at - self._clock()))
            return self._engine

    def _next_answers(self, run: _Run) -> list[NodeAnswer]:
        """At least one answer, or none when it is time to look at the stop again."""
        patience = min(0.5, max(0.0, run.until - self._clock()))
        overdue = self._clock() >= run.until and not self._stopping.is_set()
        if overdue:
            run.over, run.left_out = True, _RUN_OVER
        if overdue or self._stopping.is_set():
            at = min(self._stop_at, run.until)
            self._halt(run, at, RUN_DEADLINE if overdue else OutcomeKind.INTERRUPTED.value)
            left = at + 1.0 - self._clock()
            if left <= 0:
                return [NodeAnswer(node, _RUN_OVER if overdue else _CUT_OFF) for node in run.waiting]
            patience = min(0.5, left)
        try:
            answer = run.answers.get(timeout=patience)
        except queue.Empty:
            return []
        return [answer] if answer.node in run.waiting else []

    def _halt(self, run: _Run, at: float, reason: str = OutcomeKind.INTERRUPTED.value) -> None:
        """Nothing new begins, and nothing lives beyond `at`."""
        with self._lock:
            passes = list(run.passes)
        for one in passes:
            one.halt()
        self._keeper.cut_all_by(at, reason, run)

    def _ended(self, run: _Run) -> bool:
        return run.over or self._stopping.is_set()

    def _ask_rack(self, run: _Run, name: str, wanted: _Wanted) -> None:
        """All of a rack, through a head as far as that goes."""
        left = dict(wanted)
        try:
            with self._lock:
                rack = self._racks.setdefault(name, Rack(self._clock))
            with rack.turn, self._heads:
                self._relay(run, name, rack, left)
            if left:
                self._ask_directly(run, left)
        except Exception as error:
            # A fault of ndctl's own must not leave the fan-out waiting for ever, nor pass for an answer.
            outcome = Outcome(OutcomeKind.CONNECTION_LOST, f"internal error: {type(error).__name__}: {error}")
            for node in wanted:
                run.answers.put(NodeAnswer(node, outcome))

    def _ask_directly(self, run: _Run, wanted: Mapping[Node, tuple[Command, ...]]) -> None:
        if self._ended(run):
            for node in wanted:
                run.answers.put(NodeAnswer(node, run.left_out))
            return
        for answer in self._direct().collect(wanted):
            run.answers.put(answer)

    def _relay(self, run: _Run, name: str, rack: Rack, left: _Wanted) -> None:
        """Ask through up to two heads; whoever is answered, or asked another way already, is taken out of `left`."""
        tried = 0
        while tried < _HEADS and not rack.refused and not self._ended(run):
            able = candidates(self._routes, left)
            if len(able) < FEWEST:
                return
            head = next((one for one in able if one.node == rack.head), able[0])
            key, admit = (
                (None, False) if self._single else rack.key_for(head.node, {one.node for one in able} - {head.node})
            )
            ended = self._one_pass(run, rack, head, [one for one in able if one is not head], left, key, admit)
            if ended.done or self._ended(run):
                rack.head = head.node
                return
            if ended.no_key:
                rack.not_accepted()
                continue
            tried += 1
            rack.head = None
            self._pass_on(run, name, rack, head, ended, left, last=tried == _HEADS)

    def _pass_on(
        self, run: _Run, name: str, rack: Rack, head: Candidate, ended: Ended, left: _Wanted, *, last: bool
    ) -> None:
        """What becomes of a rack whose head did not serve, and of the head itself."""
        who = head.node.name
        if ended.refused:
            rack.refused = ended.refused
            self._remark(name, f"{who} cannot be its head: {ended.refused}; its nodes are asked directly")
            return
        then = "its nodes are asked directly" if last else "another node takes its place"
        what = ended.fault.detail if ended.fault is not None else f"it was lost on the way: {ended.lost}"
        self._remark(name, f"{who} is no head: {what}; {then}")
        if head.node not in left:
            return
        wanted = {head.node: left.pop(head.node)}
        if ended.fault is not None and not ended.fault.passing:
            fault = ended.fault
            run.answers.put(NodeAnswer(head.node, Outcome(fault.kind, fault.detail, fault.hint)))
        else:
            self._aside(run, wanted)

    def _aside(self, run: _Run, wanted: _Wanted) -> None:
        """Ask directly while the pass goes on."""
        threading.Thread(target=self._ask_directly, args=(run, wanted), name="ndctl-aside", daemon=True).start()

    def _one_pass(
        self,
        run: _Run,
        rack: Rack,
        head: Candidate,
        others: list[Candidate],
        left: _Wanted,
        key: RunKey | None,
        admit: bool,
    ) -> Ended:
        shut_out = 0

        def told(answer: NodeAnswer, why: str) -> None:
            nonlocal shut_out
            commands = left.pop(answer.node)
            if not why or self._ended(run):
                run.answers.put(answer)
                return
            if answer.outcome.kind is OutcomeKind.AUTH_FAILED:
                shut_out += 1
                if key is not None and not admit:
                    rack.not_accepted()
            self._remark(head.node.rack, f"{answer.node.name} is asked directly; through {head.node.name}: {why}")
            self._aside(run, {answer.node: commands})

        terms = self._terms(key, admit)
        one = self._pass_of(run, head, others, left, terms, told)
        with self._lock:
            run.passes.add(one)
        if self._ended(run):
            one.halt()
        began = self._clock()
        try:
            one.run(head.dial, self._keeper.watch(run))
        finally:
            with self._lock:
                run.passes.discard(one)
            ended = one.ended
            if key is not None and admit and ended.fault is None and not ended.refused:
                asked = {peer.node for peer in one.peers if peer.began is not None}
                rack.offered(key, since=began, asked=asked, admitted=ended.admitted)
            if shut_out == len(others) and (key is None or admit):
                # An ssh older than 8.9 does not say whom it logs in to, and the agent then signs nothing.
                rack.refused = "none of its nodes lets it in"
        return ended

    def _terms(self, key: RunKey | None, admit: bool, *, last: bool = False) -> Terms:
        settings = self._settings
        token = key.token if key is not None else ""
        return Terms(settings.command_grace_s, settings.node_deadline_s, token, admit, last, KEY_MINUTES)

    def _pass_of(
        self,
        group: object,
        head: Candidate,
        others: list[Candidate],
        wanted: Mapping[Node, tuple[Command, ...]],
        terms: Terms,
        told: Callable[[NodeAnswer, str], None],
    ) -> Pass:
        peers = [
            Peer(number, one.node, one.target, wanted[one.node], one.keys, self._keeper.watch(group))
            for number, one in enumerate([head, *others])
        ]
        return Pass(peers[0], peers[1:], terms, told, self._clock)

    def _remove(self, keys: list[RunKey]) -> None:
        """Every key from its head, its line from every peer; what a head cannot do is done directly."""

        def through_head(key: RunKey, wanted: _Wanted, told: Callable[[NodeAnswer, str], None]) -> bool:
            able = candidates(self._routes, wanted)
            if not key.admitted or not able or able[0].node != key.head:
                return False
            with self._heads:
                one = self._pass_of(None, able[0], able[1:], wanted, self._terms(key, False, last=True), told)
                one.run(able[0].dial, self._keeper.watch())
            return one.ended.done

        for node, why in remove_keys(keys, through_head, self.ask).items():
            self._remark(
                node.rack,
                f"{node.name}: what the relay put there could not be removed ({why}); "
                f"the key lets nobody in any more {KEY_MINUTES} minutes after it was made",
            )

    def _remark(self, rack: str, text: str) -> None:
        with self._lock:
            self._remarks.append(f"{rack}: {text}")
        self._events(Event("note", "done", rack=rack, message=text))

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
