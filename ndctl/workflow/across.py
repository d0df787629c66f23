"""Active tests between racks: two racks at a time, the lease on both held, nodes in use left out, in a cluster of which
two racks or more are under test. Their findings go to the racks they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ndctl.inventory.loader import Loaded
from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest, Stopping, Watched
from ndctl.jobs.active.registry import active_checks
from ndctl.jobs.lease import Lease, give_back, renew, take
from ndctl.jobs.occupancy import ASKED_FIRST, Use, occupancy
from ndctl.model.answers import NodeAnswer
from ndctl.model.events import Event, EventSink
from ndctl.model.findings import Finding
from ndctl.model.places import Node, Rack
from ndctl.model.status import Group, Level, Status
from ndctl.workflow.active import ActiveResult, nccl_environment
from ndctl.workflow.bounds import NodeBound
from ndctl.workflow.budget import spoken
from ndctl.workflow.executors import DaemonExecutor, wait_for_all
from ndctl.workflow.transport import Transport

Ended = Callable[[list[Rack], Outcome], None]
_LEASE_S = 1800
_PAIRS_AT_ONCE = 8  # of racks


@dataclass(frozen=True, slots=True)
class RackSoFar:
    """One rack as its own tests left it. `answers` are the passive ones of its nodes."""

    rack: Rack
    answers: Mapping[Node, NodeAnswer]
    result: ActiveResult


def rack_pairs(racks: Sequence[RackSoFar]) -> list[list[tuple[RackSoFar, RackSoFar]]]:
    """Waves of pairs that share no rack; every rack is in one. The last of an odd number goes with the first."""
    pairs = [(racks[place], racks[place + 1]) for place in range(0, len(racks) - 1, 2)]
    odd = [(racks[-1], racks[0])] if len(racks) % 2 and len(racks) > 1 else []
    return [wave for wave in (pairs, odd) if wave]


class AcrossTests:
    """The tests between a cluster's racks. `force`, `bound` and `budget_s` as for the tests of one rack."""

    def __init__(
        self,
        transport: Transport,
        loaded: Loaded,
        *,
        level: Level,
        groups: frozenset[Group],
        force: bool,
        holder: str,
        token: str,
        disabled: frozenset[str],
        on_event: EventSink,
        bound: NodeBound | None = None,
        budget_s: float | None = None,
    ) -> None:
        self._transport = transport
        self._loaded = loaded
        self._wanted = tuple(
            check
            for check in active_checks()
            if check.across
            and level.includes(check.level)
            and check.group in groups
            and check.id not in disabled
            and check.applies(loaded.profile)
        )
        self._force = force
        self._holder = holder
        self._token = token
        self._on_event = on_event
        self._bound = bound or NodeBound()
        self._budget_s = budget_s
        self._stopping = Stopping()

    def required(self, racks: int) -> tuple[str, ...]:
        """Ids of the tests that this level must have of a run over so many racks."""
        return tuple(check.id for check in self._wanted if check.required) if racks >= 2 else ()

    def stop(self) -> None:
        """End what runs and begin nothing more; from another thread, while `run` then cleans up and returns."""
        self._transport.stop()
        self._stopping.stop()

    def run(
        self,
        racks: Sequence[RackSoFar],
        ended: Ended = lambda racks, outcome: None,
        spent_s: float = 0.0,
    ) -> None:
        """Test the racks against each other; what is found is added to their results. Nothing for fewer than two.

        ended:   called with two racks and what they gave, from several threads
        spent_s: of the budget, by the racks' own tests
        """
        if not self._wanted or len(racks) < 2:
            return
        for one in racks:
            one.result.required += self.required(len(racks))
        for wave in rack_pairs(racks):
            pool = DaemonExecutor(_PAIRS_AT_ONCE)
            try:
                pairs = [pool.submit(self._pair, left, right, ended, spent_s) for left, right in wave]
                wait_for_all(pairs, self.stop)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _pair(
        self, left: RackSoFar, right: RackSoFar, ended: Callable[[list[Rack], Outcome], None], spent_s: float
    ) -> None:
        outcome = self._tested(left, right, spent_s)
        for one, other in ((left, right), (right, left)):
            own = {node.name for node in one.rack.nodes}
            theirs = {node.name for node in other.rack.nodes}
            one.result.findings += [
                f for f in outcome.findings if f.node in own or (f.node not in theirs and f.subject != other.rack.name)
            ]
        left.result.texts += outcome.texts
        left.result.measurements += outcome.measurements
        if outcome.texts:
            left.result.ran = right.result.ran = True
        ended([left.rack, right.rack], outcome)

    def _tested(self, left: RackSoFar, right: RackSoFar, spent_s: float) -> Outcome:
        outcome = Outcome()
        name = f"{left.rack.name} ↔ {right.rack.name}"
        needed = sum(check.cost_s for check in self._wanted)
        if self._budget_s is not None and self._budget_s - spent_s < needed:
            left_s = max(0.0, self._budget_s - spent_s)
            why = f"needs about {needed:g} s, {left_s:.0f} s are left"
            return self._skipped(outcome, name, f"left out: the budget of {spoken(self._budget_s)} is spent ({why})")
        answered = {
            one.rack.name: [n for n in one.rack.nodes if n in one.answers and one.answers[n].outcome.ok]
            for one in (left, right)
        }
        silent = next((rack for rack, nodes in answered.items() if not nodes), "")
        if silent or self._stopping.stopped:
            return self._skipped(outcome, name, "interrupted" if not silent else f"no node of {silent} answered")
        nodes = [node for some in answered.values() for node in some]
        held = self._bound.take(len(nodes), lambda: self._stopping.stopped)
        if not held:
            return self._skipped(outcome, name, "interrupted")
        lease = Lease((), "")
        try:
            # Both racks are leased whole, as for a test of one of them.
            lease = take(self._transport, nodes, self._holder, self._token, _LEASE_S)
            if not lease.taken:
                why = f"another test holds a rack: {lease.held_by}" if lease.held_by else lease.problem
                return self._skipped(outcome, name, why)
            fit = self._fit(answered, held, outcome)
            if any(not some for some in fit):
                return self._skipped(outcome, name, "no idle node is left in one of the racks")
            for check in self._wanted:
                self._one(check, name, fit, lease, {**left.answers, **right.answers}, outcome)
            return outcome
        finally:
            if lease.nodes and lease.taken:
                give_back(self._transport, lease)
            self._bound.give_back(held)

    def _fit(self, answered: Mapping[str, list[Node]], held: int, outcome: Outcome) -> list[list[Node]]:
        """Of each rack the idle nodes, as many as may be under test; the others are told."""
        told = self._transport.ask({node: ASKED_FIRST for nodes in answered.values() for node in nodes})
        fit = []
        for nodes in answered.values():
            idle = []
            for node in nodes:
                use = occupancy(told[node])
                if use.use is Use.FREE or self._force:
                    idle.append(node)
                else:
                    self._left_out(outcome, node, use.said)
            for node in idle[held // 2 :]:
                self._left_out(outcome, node, f"only {self._bound.limit} nodes may be under test")
            fit.append(idle[: held // 2])
        return fit

    def _left_out(self, outcome: Outcome, node: Node, why: str) -> None:
        """That a node does not tell of its use is a finding of the rack's own tests; here it is only left out."""
        outcome.findings += [
            Finding(
                check=f"{check.id}.left-out",
                status=Status.SKIP,
                subject="all GPUs",
                node=node.name,
                message=f"left out of the test: {why}",
            )
            for check in self._wanted
        ]

    def _one(
        self,
        check: ActiveCheck,
        name: str,
        fit: Sequence[Sequence[Node]],
        lease: Lease,
        answers: Mapping[Node, NodeAnswer],
        outcome: Outcome,
    ) -> None:
        runner = Watched(self._transport, self._stopping)
        found = check.run(
            RackUnderTest(
                rack=name,
                nodes=tuple(node for some in fit for node in some),
                suspects=frozenset(),
                profile=self._loaded.profile,
                runner=runner,
                environment=partial(nccl_environment, self._loaded),
                host_keys=self._transport.host_key_lines,
                token=self._token,
                may_go_on=lambda: self._may_go_on(lease),
                say=lambda step, message, status: self._say(name, step, message, status),
                stopping=self._stopping,
                answers=answers,
            )
        )
        found = runner.told(found, check.id, name)
        outcome.findings += found.findings
        outcome.texts += found.texts
        outcome.measurements += found.measurements

    def _may_go_on(self, lease: Lease) -> str:
        if self._stopping.stopped:
            return "interrupted"
        again = renew(self._transport, lease, self._holder, _LEASE_S)
        return f"another test took a rack over: {again.held_by}" if again.held_by else again.problem

    def _skipped(self, outcome: Outcome, name: str, reason: str) -> Outcome:
        self._say(name, "skipped", reason, "waiting")
        for check in self._wanted:
            outcome.skip(check.id, name, reason)
        return outcome

    def _say(self, name: str, step: str, message: str, status: str) -> None:
        cluster = self._loaded.inventory.cluster
        self._on_event(Event("job", status, cluster=cluster, rack=name, step=step, message=message))
