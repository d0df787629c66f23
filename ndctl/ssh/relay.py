"""Asking a rack through one of its nodes: for each rack one connection, and its head asks the others from there.

`collect` is relayed; `ask` is not: who starts something on several nodes at once needs all of them at the same moment.
What a head cannot find out of a peer (refused, unreachable, a login or a host key that does not fit) is asked directly,
so that the answer is the one a direct visit gives, and no peer is blamed for what lies between it and its head.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from ndctl.model.answers import Command, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.places import Node
from ndctl.ssh.deadlines import DeadlineKeeper
from ndctl.ssh.engine import Engine
from ndctl.ssh.relay_cleanup import remove_keys
from ndctl.ssh.relay_heads import Heads
from ndctl.ssh.relay_rack import KEY_MINUTES, Rack, RunKey
from ndctl.ssh.relay_run import Run, Stop, Wanted
from ndctl.ssh.routes import Routes
from ndctl.ssh.settings import SshSettings

_PUTTING_AWAY_S = 5.0


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
        self._events = events
        self._clock = clock
        self._chance = chance
        self._keeper = DeadlineKeeper(clock)
        self._routes = Routes(settings, self._keeper, clock)
        self._heads = Heads(
            settings,
            self._routes,
            self._keeper,
            clock,
            single=single,
            ask_directly=self._ask_directly,
            remark=self._remark,
        )
        self._lock = threading.Lock()
        self._racks: dict[str, Rack] = {}
        self._engine: Engine | None = None
        self._remarks: list[str] = []
        self._stop = Stop(clock)

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
        run = Run(requests, self._clock() + self._settings.run_deadline_s, self._stop, self._keeper, self._clock)
        racks: dict[str, Wanted] = {}
        for node, commands in run.wanted.items():
            racks.setdefault(node.rack, {})[node] = commands
        if not self._stop.asked:
            for name, wanted in racks.items():
                threading.Thread(
                    target=self._ask_rack, args=(run, name, wanted), name="ndctl-rack", daemon=True
                ).start()
        try:
            while run.waiting:
                for answer in run.next_answers():
                    run.waiting.discard(answer.node)
                    self._tell(answer)
                    if on_answer is not None:
                        on_answer(answer)
                    yield answer
        finally:
            run.leave()

    def stop(self, grace_s: float = 5.0) -> None:
        """As `Engine.stop`: `collect` asks no further node, `ask` still works."""
        self._stop.within(grace_s)
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
                if self._stop.asked:
                    self._engine.stop(self._stop.grace_s)
            return self._engine

    def _ask_rack(self, run: Run, name: str, wanted: Wanted) -> None:
        """All of a rack, through a head as far as that goes."""
        left = dict(wanted)
        try:
            with self._lock:
                rack = self._racks.setdefault(name, Rack(self._clock))
            self._heads.relay(run, name, rack, left)
            if left:
                self._ask_directly(run, left)
        except Exception as error:
            # A fault of ndctl's own must not leave the fan-out waiting for ever, nor pass for an answer.
            outcome = Outcome(OutcomeKind.CONNECTION_LOST, f"internal error: {type(error).__name__}: {error}")
            for node in wanted:
                run.answers.put(NodeAnswer(node, outcome))

    def _ask_directly(self, run: Run, wanted: Wanted) -> None:
        if run.ended:
            for node in wanted:
                run.answers.put(NodeAnswer(node, run.left_out))
            return
        for answer in self._direct().collect(wanted):
            run.answers.put(answer)

    def _remove(self, keys: list[RunKey]) -> None:
        """Every key from its head, its line from every peer; what a head cannot do is done directly."""
        for node, why in remove_keys(keys, self._heads.forget, self.ask).items():
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
