"""The unit of work of a validation: one rack, from the first question to its nodes to the end of its own active tests.

Racks know nothing of each other here, except that they share the bound on nodes under test and the places for active
tests. What comes of a rack goes into the `Gathered` of its cluster at once, so that an interruption loses nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ndctl.checks.base import Check
from ndctl.checks.commands import IDENTITY
from ndctl.jobs.nccl_scripts import end_all_script
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.events import Event, EventSink
from ndctl.model.places import Node, Rack
from ndctl.model.runner import NodeRunner
from ndctl.model.status import Group, Level
from ndctl.workflow.backlog import Backlog
from ndctl.workflow.gathered import Gathered, disabled_checks, judged, merged, settle
from ndctl.workflow.transport import Transport

if TYPE_CHECKING:
    from ndctl.jobs.active.base import Outcome
    from ndctl.workflow.bounds import NodeBound
    from ndctl.workflow.source import Source
    from ndctl.workflow.validate import Request

TESTED_AT_ONCE = 16  # racks whose active tests run side by side
_STOP_LOOKED_AT_S = 0.5
_NOTHING: Mapping[Node, NodeAnswer] = {}


def commands_of(checks: list[Check]) -> list[Command]:
    """What the checks ask: each command once, in the order it runs."""
    return in_turn(command for check in checks for command in check.commands)


def in_turn(commands: Iterable[Command]) -> list[Command]:
    """Each command once, in the order it runs."""
    unique: dict[str, Command] = {}
    for command in commands:
        unique.setdefault(command.id, command)
    return sorted(unique.values(), key=lambda command: (command.order, command.id))


def told_while_starting(checks: list[Check]) -> list[Command]:
    """What tells of fabric and IMEX. Counters keep their first reading."""
    return [one for one in commands_of([c for c in checks if c.group is Group.NVLINK]) if one.order >= 0]


def end_leftovers(runner: NodeRunner, token: str, rack: Rack, nodes: Iterable[Node]) -> None:
    """End what an earlier maker of this run, who died, may have left running on nodes of a rack."""
    script = "; ".join(end_all_script(prefix) for prefix in (f"{token}-{rack.name}-", f"{token}x"))
    runner.ask(dict.fromkeys(nodes, (Command("leftovers", script, timeout_s=30, cap_bytes=2_000),)))


def shared_by_tests(one: Gathered, request: Request, source: Source, bound: NodeBound, on_event: EventSink) -> Any:
    """What tests of one rack and tests between racks are both made with."""
    return {
        "level": request.level,
        "groups": request.groups,
        "force": request.force,
        "holder": source.holder,
        "disabled": frozenset(disabled_checks(one.loaded, one.today)),
        "on_event": on_event,
        "bound": bound,
        "budget_s": request.budget_s,
    }


class LiveWork(Protocol):
    """What works on racks of one cluster, here or elsewhere; called from as many threads as there are racks."""

    @property
    def commands(self) -> Sequence[Command]:
        """What every node is asked."""
        ...

    def __call__(self, rack: Rack, known: Mapping[Node, NodeAnswer] = _NOTHING) -> None: ...

    def stop(self) -> None: ...


class RackWork:
    """Works on racks of one cluster; call it with a rack, from as many threads as there are racks."""

    def __init__(
        self,
        one: Gathered,
        request: Request,
        source: Source,
        transport: Transport,
        bound: NodeBound,
        on_event: EventSink,
    ) -> None:
        self._one = one
        self._request = request
        self._source = source
        self._transport = transport
        self._on_event = on_event
        # Whatever is checked: who answered, and since which boot, decides whether an answer still holds.
        self.commands: Sequence[Command] = in_turn(
            [IDENTITY, *(command for check in one.checks for command in check.commands)]
        )
        self._starting = told_while_starting(one.checks)
        # What active tests may have changed.
        self._again = [c for c in self.commands if c.order > 0 or c.id == "kernel-log"]
        self._places = threading.Semaphore(TESTED_AT_ONCE)
        self._stopping = threading.Event()
        # A relay's heads ask their peers by themselves. With tests, racks are not judged as they come.
        self.backlog = Backlog(math.inf if request.relay or request.level is not Level.QUICK else request.fanout)
        self._begun: dict[str, float] = {}
        self.tests_begun = math.inf  # by the source's clock, which is read for a budget only
        self._tests: Any = None
        if request.level is not Level.QUICK:
            from ndctl.workflow.active import ActiveTests

            self._tests = ActiveTests(
                transport,
                one.loaded,
                past=source.found_per_check() if request.budget_s is not None else None,
                token=source.token,
                clock=source.clock,
                **shared_by_tests(one, request, source, bound, on_event),
            )
            one.required = tuple(dict.fromkeys([*one.required, *self._tests.required]))

    def __call__(self, rack: Rack, known: Mapping[Node, NodeAnswer] = _NOTHING) -> None:
        """Ask the rack's nodes, wait while it still starts, and run its active tests if the level has any.

        known: answers of nodes that need not be asked
        """
        asked = [node for node in rack.nodes if node not in known]
        self.backlog.begin(len(asked))
        self._begun[rack.name] = time.monotonic()
        self._tell(rack, "started", f"asking {len(rack.nodes)} nodes")
        try:
            self._ask(rack, asked, known)
            if self._tests is not None:
                self._test(rack)
        finally:
            self._took(rack)
        if self._stopping.is_set():
            self._tell(rack, "done", "stopped")
            return
        self._source.rack_ended(rack.name)
        self._tell(rack, "done", f"{self._answered(rack)} of {len(rack.nodes)} nodes answered")

    def stop(self) -> None:
        """Begin nothing more: nodes being asked have a few seconds to finish, active tests are ended and clean up."""
        self._stopping.set()
        self.backlog.end()
        self._transport.stop()
        if self._tests is not None:
            self._tests.stop()

    def ended(self, racks: list[Rack], outcome: Outcome) -> None:
        """Keep what a test gave, and ask again for what it may have changed."""
        one = self._one
        for node, command, text in outcome.texts:
            self._source.keep_text(node, command, text)
        if any(one.active[rack.name].ran for rack in racks):
            answered = [n for rack in racks for n in rack.nodes if n in one.answers and one.answers[n].outcome.ok]
            self._transport.collect(dict.fromkeys(answered, self._again), self._keep)
        for rack in racks:
            self._took(rack)

    def _ask(self, rack: Rack, asked: Sequence[Node], known: Mapping[Node, NodeAnswer]) -> None:
        awaited = len(asked)

        def keep(answer: NodeAnswer) -> None:
            nonlocal awaited
            awaited -= 1
            self.backlog.answered()
            self._keep(answer)
            self._tell(rack, "running", f"{self._answered(rack)} of {len(rack.nodes)} nodes answered")

        for answer in known.values():
            self._keep(answer)
        try:
            self._transport.collect(dict.fromkeys(asked, self.commands), keep)
        finally:
            self.backlog.answered(awaited)
        with self._source.timing(f"{rack.name} settling"):
            settle(
                self._one,
                rack,
                self._ask_again,
                self._on_event,
                clock=self._source.clock,
                sleep=self._source.sleep,
                stopped=self._stopping.is_set,
            )
        self._one.client[rack.name] = self._source.client_trouble(rack.name)

    def _ask_again(self, nodes: list[Node]) -> None:
        one = self._one
        answered = [node for node in nodes if node in one.answers and one.answers[node].outcome.ok]
        self._transport.collect(dict.fromkeys(answered, self._starting), self._keep)

    def _test(self, rack: Rack) -> None:
        one = self._one
        answers = {node: one.answers[node] for node in rack.nodes if node in one.answers}
        suspects = {
            f.node for f in judged(one, rack).findings if f.status.value == "fail" and f.node and not f.caused_by
        }
        while not self._places.acquire(timeout=_STOP_LOOKED_AT_S):
            if self._stopping.is_set():
                break
        else:
            try:
                self._run_tests(rack, answers, frozenset(suspects))
            finally:
                self._places.release()
            return
        self._run_tests(rack, answers, frozenset(suspects))  # stopped: they begin nothing and say so

    def _run_tests(self, rack: Rack, answers: dict[Node, NodeAnswer], suspects: frozenset[str]) -> None:
        with self._source.timing(rack.name):
            if self._request.budget_s is not None:
                self.tests_begun = min(self.tests_begun, self._source.clock())
            result = self._tests.run(rack, answers, suspects)
        self._one.active[rack.name] = result
        self.ended([rack], result)

    def _keep(self, answer: NodeAnswer) -> None:
        one = self._one
        whole = one.answers[answer.node] = merged(one.answers.get(answer.node), answer)
        if not whole.outcome.ok:
            self._on_event(
                Event(
                    "collect",
                    "failed",
                    cluster=one.cluster.name,
                    rack=answer.node.rack,
                    node=answer.node.name,
                    message=f"{answer.outcome.kind.value}: {answer.outcome.detail}",
                    data={"address": answer.node.address},
                )
            )

    def _answered(self, rack: Rack) -> int:
        answers = self._one.answers
        return sum(1 for node in rack.nodes if node in answers and answers[node].outcome.ok)

    def _tell(self, rack: Rack, status: str, message: str) -> None:
        """Where the rack is in its work; what a node or a test has to say is told beside it."""
        cluster = self._one.cluster.name
        self._on_event(Event("rack", status, cluster=cluster, rack=rack.name, message=message))

    def _took(self, rack: Rack) -> None:
        self._one.seconds[rack.name] = time.monotonic() - self._begun[rack.name]
