"""The active tests of one rack: nothing is started on GPUs that are in use, nor while somebody else tests it, and
one re-test comes before anybody is blamed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ndctl.inventory.loader import Loaded
from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest, Stopping
from ndctl.jobs.active.registry import active_checks
from ndctl.jobs.lease import Lease, give_back, renew, take
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.events import Event, EventSink
from ndctl.model.findings import Finding
from ndctl.model.places import Node, Rack
from ndctl.model.status import Action, Group, Level, Status
from ndctl.workflow.transport import Transport

_LEASE_S = 1800
_COMPUTE_PROCESSES = Command(
    "compute-processes",
    "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader",
    timeout_s=20,
    cap_bytes=100_000,
)


@dataclass(slots=True)
class ActiveResult(Outcome):
    """An outcome of all active tests of one rack; the check ids this level must have; whether anything ran."""

    required: tuple[str, ...] = ()
    ran: bool = False

    def add(self, outcome: Outcome) -> None:
        self.findings += outcome.findings
        self.texts += outcome.texts
        self.measurements += outcome.measurements


class ActiveTests:
    """Runs the active tests of a cluster's racks; safe to use from several threads, one rack each."""

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
        )
        self._force = force
        self._holder = holder
        # Two operators may begin in the same second, and what runs on a node is ended by this name.
        self._token = f"{token}-{secrets.token_hex(4)}"
        self._on_event = on_event
        self._stopping = Stopping()

    def stop(self) -> None:
        """End what runs and begin nothing more; from another thread, while `run` then cleans up and returns."""
        self._stopping.stop()

    def run(self, rack: Rack, answers: Mapping[Node, NodeAnswer], suspects: frozenset[str]) -> ActiveResult:
        """All active tests of the rack. `suspects`: nodes that already failed a passive check."""
        result = ActiveResult(required=tuple(check.id for check in self._wanted if check.required))
        if not self._wanted:
            return result
        nodes = [node for node in rack.nodes if node in answers and answers[node].outcome.ok]
        if not nodes or self._stopping.stopped:
            self._skip(result, rack, "interrupted" if self._stopping.stopped else _too_few(nodes, "answered"))
            return result
        lease = take(self._transport, nodes, self._holder, self._token, _LEASE_S)
        if not lease.taken:
            why = f"another test holds the rack: {lease.held_by}" if lease.held_by else lease.problem
            self._skip(result, rack, why)
            return result
        try:
            fit = nodes if self._force else self._idle(rack, nodes, result)
            for check in self._wanted if fit else ():
                self._one(check, rack, fit, suspects, answers, lease, result)
        finally:
            give_back(self._transport, lease)
        return result

    def _one(
        self,
        check: ActiveCheck,
        rack: Rack,
        nodes: Sequence[Node],
        suspects: frozenset[str],
        answers: Mapping[Node, NodeAnswer],
        lease: Lease,
        result: ActiveResult,
    ) -> None:
        if len(nodes) < check.smallest:
            self._skip_one(result, rack, check.id, _too_few(nodes, "can be tested", check.smallest))
            return
        reason = self._may_go_on(lease) if result.ran else ""
        if reason:
            self._skip_one(result, rack, check.id, reason)
            return
        result.ran = True
        result.add(
            check.run(
                RackUnderTest(
                    rack=rack.name,
                    nodes=tuple(nodes),
                    suspects=suspects,
                    profile=self._profile,
                    runner=self._transport,
                    environment=self._environment,
                    host_keys=self._transport.host_key_lines,
                    token=self._token,
                    may_go_on=lambda: self._may_go_on(lease),
                    say=lambda step, message, status: self._say(rack, step, message, status),
                    stopping=self._stopping,
                    answers=answers,
                )
            )
        )

    def _environment(self, scope: str) -> dict[str, str]:
        recipe = self._profile.nccl.environment
        own = recipe.get("infiniband", {}) if scope == "infiniband" else recipe.get("rack", {})
        return {**recipe.get("common", {}), **own, **self._loaded.inventory.nccl_env}

    def _idle(self, rack: Rack, nodes: Sequence[Node], result: ActiveResult) -> list[Node]:
        """The nodes to test; none, and a skip, when GPUs of any are in use. Asked afresh: a job may have begun since
        the passive checks, and they may not have been asked at all. Who does not tell is left out and unknown."""
        told = self._transport.ask({node: [_COMPUTE_PROCESSES] for node in nodes})
        using = {node.name: _in_use(told[node]) for node in nodes}
        busy = {name: text for name, text in using.items() if text}
        if busy:
            name, text = next(iter(busy.items()))
            more = f" and {len(busy) - 1} more nodes" if len(busy) > 1 else ""
            self._skip(result, rack, f"GPUs are in use on {name} ({text}){more}; --force tests all the same")
            return []
        fit = [node for node in nodes if using[node.name] is not None]
        for node in nodes:
            if using[node.name] is None:
                result.findings += [_left_out(check.id, node) for check in self._wanted]
        if not fit:
            self._skip(result, rack, _too_few(fit, "told whether its GPUs are in use"))
        return fit

    def _skip(self, result: ActiveResult, rack: Rack, reason: str) -> None:
        self._say(rack, "skipped", reason, "waiting")
        for check in self._wanted:
            self._skip_one(result, rack, check.id, reason)

    def _skip_one(self, result: ActiveResult, rack: Rack, check: str, reason: str) -> None:
        result.skip(check, rack.name, reason)

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

    def _may_go_on(self, lease: Lease) -> str:
        """Why the tests of this rack may not go on; "" when they may. The lease lasts longer then."""
        if self._stopping.stopped:
            return "interrupted"
        again = renew(self._transport, lease, self._holder, _LEASE_S)
        if again.held_by:
            return f"another test took the rack over: {again.held_by}"
        return again.problem


def _in_use(answer: NodeAnswer) -> str | None:
    """Who uses the node's GPUs, "" when nobody does, None when the node does not tell."""
    result = answer.results.get(_COMPUTE_PROCESSES.id)
    if result is None or result.exit_code != 0:
        return None
    rows = [[cell.strip() for cell in line.split(",")] for line in result.stdout.splitlines() if line.strip()]
    using = {row[1]: row[2].rpartition("/")[2] for row in rows if len(row) >= 3 and row[1].isdigit()}
    if rows and not using:
        return None  # it says something, and nothing that is known: a field is not supported, or a complaint
    return ", ".join(f"{name or 'process'} {pid}" for pid, name in list(using.items())[:3])


def _too_few(nodes: Sequence[Node], did: str, needed: int = 2) -> str:
    return f"{len(nodes)} node{'s' if len(nodes) != 1 else ''} of the rack {did}; {needed} are needed"


def _left_out(check: str, node: Node) -> Finding:
    return Finding(
        check=f"{check}.left-out",
        status=Status.UNKNOWN,
        subject="all GPUs",
        node=node.name,
        message="left out of the test: nvidia-smi does not tell whether its GPUs are in use",
        cause="nvidia-smi is missing, fails or hangs there",
        action=Action.INVESTIGATE,
    )
