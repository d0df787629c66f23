"""The active tests of one rack: nothing is started on nodes that are in use, nor while somebody else tests the rack,
nor on more nodes or for longer than was allowed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ndctl.inventory.loader import Loaded
from ndctl.jobs.active.base import INTERRUPTED, ActiveCheck, Outcome, RackUnderTest, Stopping, Watched
from ndctl.jobs.active.registry import active_checks
from ndctl.jobs.lease import Lease, give_back, renew, take
from ndctl.jobs.occupancy import ASKED_FIRST, Occupancy, Use, occupancy, worth_asking_again
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.events import Event, EventSink
from ndctl.model.findings import Finding
from ndctl.model.places import Node, Rack
from ndctl.model.status import Action, Group, Level, Status
from ndctl.workflow.bounds import NodeBound
from ndctl.workflow.budget import Past, by_worth, next_that_fits, spoken
from ndctl.workflow.transport import Transport

_LEASE_S = 1800


@dataclass(slots=True)
class ActiveResult(Outcome):
    """An outcome of all active tests of one rack.

    required: the check ids this level must have
    ran:      whether anything ran
    remarks:  what the answer must say beside its findings: what was left out, what was tested while in use
    """

    required: tuple[str, ...] = ()
    ran: bool = False
    remarks: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.findings += outcome.findings
        self.texts += outcome.texts
        self.measurements += outcome.measurements


@dataclass(slots=True)
class _Rack:
    """One rack while it is tested: the nodes that still may be, and what to ask them about their use."""

    rack: Rack
    answers: Mapping[Node, NodeAnswer]
    suspects: frozenset[str]
    lease: Lease
    held: int  # nodes of the bound
    fit: list[Node]
    stopping: Stopping
    questions: Sequence[Command] = ASKED_FIRST
    shared: dict[str, Any] = field(default_factory=dict)


class ActiveTests:
    """Runs the active tests of a cluster's racks; safe to use from several threads, one rack each.

    bound:    how many nodes of the whole run may be under test at one time
    budget_s: seconds of each rack's own active tests, from when its turn comes; None: no limit. A test that has begun
              is ended with its isolation.
    past:     what each check has found before, by which a budget orders them
    """

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
        past: Past | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._loaded = loaded
        self._profile = loaded.profile
        self._wanted = tuple(
            check
            for check in active_checks()
            if level.includes(check.level)
            and check.group in groups
            and check.id not in disabled
            and check.applies(loaded.profile)
            and not check.across
        )
        if budget_s is not None:
            self._wanted = by_worth(self._wanted, past or {})
        self._force = force
        self._holder = holder
        self._token = token
        self._on_event = on_event
        self._stopping = Stopping()
        self._bound = bound or NodeBound()
        self._budget_s = budget_s
        self._clock = clock

    @property
    def required(self) -> tuple[str, ...]:
        """Ids of the tests that this level must have."""
        return tuple(check.id for check in self._wanted if check.required)

    def stop(self) -> None:
        """End what runs and begin nothing more; from another thread, while `run` then cleans up and returns."""
        self._stopping.stop()

    def run(self, rack: Rack, answers: Mapping[Node, NodeAnswer], suspects: frozenset[str]) -> ActiveResult:
        """All active tests of the rack. `suspects`: nodes that already failed a passive check."""
        result = ActiveResult(required=self.required)
        if not self._wanted:
            return result
        nodes = [node for node in rack.nodes if node in answers and answers[node].outcome.ok]
        if not nodes or self._stopping.stopped:
            self._skip(result, rack, INTERRUPTED if self._stopping.stopped else _too_few(nodes, "answered"))
            return result
        held = self._bound.take(len(nodes), lambda: self._stopping.stopped, lambda: self._waits(rack))
        if not held:
            self._skip(result, rack, INTERRUPTED)
            return result
        under_test = _Rack(rack, answers, suspects, Lease((), ""), held, nodes, Stopping(self._stopping))
        try:
            # The whole rack is leased, whatever of it is tested: two tests in one NVLink domain disturb each other.
            under_test.lease = take(self._transport, nodes, self._holder, self._token, _LEASE_S)
            if under_test.lease.taken:
                self._all(under_test, result)
            else:
                lease = under_test.lease
                why = f"another test holds the rack: {lease.held_by}" if lease.held_by else lease.problem
                self._skip(result, rack, why)
        finally:
            if under_test.lease.nodes and under_test.lease.taken:
                give_back(self._transport, under_test.lease)
            self._bound.give_back(under_test.held)
        return result

    def _all(self, rack: _Rack, result: ActiveResult) -> None:
        """Every wanted test, as long as nodes and budget last."""
        end = self._clock() + self._budget_s if self._budget_s is not None else None
        pending = list(self._wanted)
        self._keep_idle(rack, pending, result)
        self._keep_within_bound(rack, pending, result)
        while pending and rack.fit:
            check = pending[0] if end is None else next_that_fits(pending, end - self._clock())
            if check is None:
                break
            if result.ran:
                # A job may have begun meanwhile on a node that is idle and not drained.
                self._keep_idle(rack, pending, result)
                if not rack.fit:
                    break
            pending.remove(check)
            self._one(check, rack, result)
        if end is not None and rack.fit:
            self._over_budget(rack, pending, end - self._clock(), result)

    def _one(self, check: ActiveCheck, rack: _Rack, result: ActiveResult) -> None:
        name = rack.rack.name
        if len(rack.fit) < check.smallest:
            result.skip(check.id, name, _too_few(rack.fit, "can be tested", check.smallest))
            return
        reason = self._may_go_on(rack) if result.ran else ""
        if reason:
            result.skip(check.id, name, reason)
            return
        result.ran = True
        runner = Watched(self._transport, rack.stopping)
        outcome = check.run(
            RackUnderTest(
                rack=name,
                nodes=tuple(rack.fit),
                suspects=rack.suspects,
                profile=self._profile,
                runner=runner,
                environment=partial(nccl_environment, self._loaded),
                host_keys=self._transport.host_key_lines,
                token=self._token,
                may_go_on=lambda: self._may_go_on(rack),
                say=lambda step, message, status: self._say(rack.rack, step, message, status),
                stopping=rack.stopping,
                answers=rack.answers,
                shared=rack.shared,
            )
        )
        # Whom one test found, the next ones leave out first: one culprit is searched for once.
        rack.suspects |= {f.node for f in outcome.findings if f.status is Status.FAIL and f.node}
        result.add(runner.told(outcome, check.id, name))

    def _keep_idle(self, rack: _Rack, pending: Sequence[ActiveCheck], result: ActiveResult) -> None:
        """Leave out of the pending tests who is in use (skip) and who does not tell (unknown). Asked afresh: a job may
        have begun since the passive checks, and they may not have been asked at all."""
        told = self._transport.ask(dict.fromkeys(rack.fit, rack.questions))
        uses = {node: occupancy(told[node]) for node in rack.fit}
        rack.questions = worth_asking_again(told.values())
        taken = [node for node in rack.fit if uses[node].use is not Use.FREE]
        if not taken:
            return
        if self._force:
            for node in taken:
                remark = f"{node.name} was tested all the same (--force): {uses[node].said}"
                if remark not in result.remarks:
                    result.remarks.append(remark)
                    self._say(rack.rack, "forced", remark)
            return
        first, more = taken[0], f" and {len(taken) - 1} more nodes" if len(taken) > 1 else ""
        self._say(rack.rack, "left out", f"{first.name}: {uses[first].said}{more}", "waiting")
        rack.fit = [node for node in rack.fit if node not in taken]
        for position, check in enumerate(pending):
            # That a node does not tell is one trouble, however many tests it costs.
            result.findings += [_left_out(check.id, node, uses[node], again=position > 0) for node in taken]
        if not rack.fit:
            self._skip(result, rack.rack, f"no node is left to test: {first.name}: {uses[first].said}{more}", pending)

    def _keep_within_bound(self, rack: _Rack, pending: Sequence[ActiveCheck], result: ActiveResult) -> None:
        """The first nodes, as many as may be under test; places that are not needed are given back."""
        over = rack.fit[rack.held :]
        rack.fit = rack.fit[: rack.held]
        spare = rack.held - len(rack.fit)
        self._bound.give_back(spare)
        rack.held -= spare
        for node in over:
            why = f"only {self._bound.limit} nodes may be under test (--max-nodes-under-test)"
            result.findings += [_left_out(check.id, node, Occupancy(Use.BUSY, why)) for check in pending]

    def _over_budget(self, rack: _Rack, left: Sequence[ActiveCheck], left_s: float, result: ActiveResult) -> None:
        budget = spoken(self._budget_s or 0)
        for check in left:
            needs = f"needs about {check.cost_s:g} s, {max(0, left_s):.0f} s are left"
            result.skip(check.id, rack.rack.name, f"left out: the budget of {budget} is spent ({needs})")
        if left:
            names = ", ".join(f"{check.id} (about {check.cost_s:g} s)" for check in left)
            result.remarks.append(f"left out for the budget of {budget}: {names}")
            self._say(rack.rack, "budget", result.remarks[-1], "done")

    def _skip(self, result: ActiveResult, rack: Rack, reason: str, checks: Sequence[ActiveCheck] | None = None) -> None:
        self._say(rack, "skipped", reason, "waiting")
        for check in self._wanted if checks is None else checks:
            result.skip(check.id, rack.name, reason)

    def _waits(self, rack: Rack) -> None:
        self._say(rack, "waits", f"{self._bound.limit} nodes are under test (--max-nodes-under-test)", "waiting")

    def _say(self, rack: Rack, step: str, message: str, status: str = "running") -> None:
        self._on_event(
            Event(
                "job",
                status,
                cluster=self._loaded.inventory.cluster,
                rack=rack.name,
                step=step,
                message=message,
            )
        )

    def _may_go_on(self, rack: _Rack) -> str:
        """Why the tests of this rack may not go on; "" when they may. The lease lasts longer then."""
        if rack.stopping.stopped:
            return INTERRUPTED
        again = renew(self._transport, rack.lease, self._holder, _LEASE_S)
        if again.held_by:
            return f"another test took the rack over: {again.held_by}"
        return again.problem


def nccl_environment(loaded: Loaded, scope: str) -> dict[str, str]:
    """The profile's recipe for a path ("rack" or "infiniband"), with what the inventory overrides."""
    recipe = loaded.profile.nccl.environment
    own = recipe.get("infiniband", {}) if scope == "infiniband" else recipe.get("rack", {})
    return {**recipe.get("common", {}), **own, **loaded.inventory.nccl_env}


def _too_few(nodes: Sequence[Node], did: str, needed: int = 2) -> str:
    return f"{len(nodes)} node{'s' if len(nodes) != 1 else ''} of the rack {did}; {needed} are needed"


def _left_out(check: str, node: Node, why: Occupancy, again: bool = False) -> Finding:
    """Who does not tell is unknown: something is wrong there. Who is in use is skipped: nothing is."""
    untold = why.use is Use.UNTOLD and not again
    return Finding(
        check=f"{check}.left-out",
        status=Status.UNKNOWN if untold else Status.SKIP,
        subject="all GPUs",
        node=node.name,
        message=f"left out of the test: {why.said}",
        cause=why.cause if untold else "",
        action=Action.INVESTIGATE if untold else Action.NONE,
    )
