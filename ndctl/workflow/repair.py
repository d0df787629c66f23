"""Repair nodes: evidence first, then the action, then the wait, then the verdict on the node and its rack."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ndctl.jobs.occupancy import Use, occupancy
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.places import Cluster, Node, split_node_name
from ndctl.model.status import Level
from ndctl.workflow.locks import this_holder
from ndctl.workflow.named_nodes import part_of
from ndctl.workflow.nodes import discover, learn_host_keys
from ndctl.workflow.repair_act import BACK_WITHIN_S, NodeRepair
from ndctl.workflow.repair_lease import RackLease, Stopped
from ndctl.workflow.repair_plan import RepairPlan
from ndctl.workflow.repair_refusals import QUESTIONS, Target
from ndctl.workflow.repair_result import NodeEnd, RepairResult
from ndctl.workflow.repair_state import Entry, Identity, Phase, Repairs, seen_well
from ndctl.workflow.select import Selection
from ndctl.workflow.side_by_side import side_by_side
from ndctl.workflow.state_dir import cluster_dir
from ndctl.workflow.transport import open_transport
from ndctl.workflow.validate import Request, stamp, validate_inventories

if TYPE_CHECKING:
    from azure.core.exceptions import AzureError

    from ndctl.azure.clients import AzureClients
    from ndctl.inventory.loader import Loaded
    from ndctl.model.findings import Run
    from ndctl.workflow.repair_plan import Opener

_RACKS_AT_ONCE = 8
Interruptible = Callable[[Callable[[], None], str], AbstractContextManager[None]]


def repair(
    plan: RepairPlan,
    clients: AzureClients | None,
    *,
    on_event: EventSink = ignore_events,
    stop: threading.Event | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    open_transport: Opener = open_transport,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    back_within_s: float = BACK_WITHIN_S,
    interruptible: Interruptible = lambda stop, meaning: nullcontext(),
) -> RepairResult:
    """Do the plan. Ctrl-C ends the waiting; what Azure was told goes on, and the result says how far each node came.

    interruptible(stop, meaning): within it the first Ctrl-C calls `stop`. Raises NdctlError: exit 4 when an active test
    has come first.
    """
    loaded = plan.loaded
    folder = cluster_dir(loaded.inventory, loaded.path)
    repairs = Repairs(folder)
    stop = stop or threading.Event()
    work = NodeRepair(
        loaded,
        clients,
        repairs,
        open_transport,
        on_event,
        stop=stop,
        clock=clock,
        sleep=sleep,
        now=lambda: stamp(now()),
        back_within_s=back_within_s,
    )
    ends = _Ends(plan, repairs)

    def told(message: str) -> None:
        on_event(Event("note", "failed", plan.cluster.name, message=message))

    doing = f"repair ({plan.request.action.value})"
    lease = RackLease(loaded, plan.leased, doing, plan.token, open_transport, told, force=plan.request.force)
    meaning = "Azure goes on with what was sent; the same command goes on where this stops"
    try:
        with lease:
            _begin(plan, repairs, stamp(now()))
            _evidence(plan, repairs, clients, folder, on_event, lambda: stamp(now()))
            with interruptible(stop.set, meaning):
                ends.failed |= _each_rack(plan, repairs, work.act, stop, on_event, stamp(now()))
            acted = [one.node.name for one in plan.targets if _phase(repairs, one) in (Phase.ACTED, Phase.BACK)]
            cluster = discover(loaded, clients)
            now_there = {node.name: node for node in cluster.nodes}
            back = [Target(now_there[name]) for name in acted if name in now_there]
            lease.also([one.node for one in back])
            with interruptible(stop.set, meaning):
                ends.failed |= _each_rack(plan, repairs, work.wait, stop, on_event, stamp(now()), back)
        came = [one.node.name for one in back if _phase(repairs, one) is Phase.BACK]
        if came:
            nodes = [now_there[name] for name in came]
            racks = {node.rack for node in nodes}
            # Only what is asked now: each key that is not known yet is a Run Command.
            asked = part_of(cluster, [node for node in cluster.nodes if node.rack in racks])
            learn_host_keys(loaded, asked, clients=clients)
            ends.runs = _validated(plan, nodes, cluster, open_transport, on_event, now)
            for name in came:
                entry = repairs.get(name)
                assert entry is not None
                repairs.put(entry.at(Phase.BACK, ended=stamp(now()), validated=ends.well(name)))
            if any(run.interrupted for run in ends.runs):
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        stop.set()
        ends.interrupted = True
    return ends.result()


@dataclass
class _Ends:
    plan: RepairPlan
    repairs: Repairs
    failed: dict[str, NdctlError] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    interrupted: bool = False

    def well(self, node: str) -> bool:
        return bool(self.runs) and seen_well({"node": self.runs[0]})(node, "")

    def result(self) -> RepairResult:
        ends = []
        for one in self.plan.targets:
            entry = self.repairs.get(one.node.name)
            diagnosis = self.plan.diagnoses.get(one.node.name)
            ends.append(
                NodeEnd(one.node.name, entry, self.failed.get(one.node.name), diagnosis.said if diagnosis else "")
            )
        request = self.plan.request
        return RepairResult(
            self.plan.cluster.name, str(request.path), request, tuple(ends), self.runs, self.interrupted
        )


def _phase(repairs: Repairs, target: Target) -> Phase | None:
    entry = repairs.get(target.node.name)
    return entry.phase if entry is not None else None


def _begin(plan: RepairPlan, repairs: Repairs, at: str) -> None:
    for one in plan.targets:
        if one.going_on is None:
            before = Identity(one.node.instance_id, one.node.vm_id)
            repairs.put(Entry(one.node.name, plan.request.action, Phase.BEGUN, at, this_holder(), before))


def _evidence(
    plan: RepairPlan,
    repairs: Repairs,
    clients: AzureClients | None,
    folder: Path,
    on_event: EventSink,
    now: Callable[[], str],
) -> None:
    """Of nodes whose evidence is there already, the host it was taken of may be gone: it is not taken again. Where it
    cannot be kept, the repair ends before anything was changed."""
    from ndctl.workflow.evidence import save_evidence

    lacking = [one.node for one in plan.targets if _phase(repairs, one) is Phase.BEGUN]
    for node in [node for node in lacking if not node.instance_id and not node.address]:
        entry = repairs.get(node.name)
        assert entry is not None
        repairs.put(entry.at(Phase.EVIDENCE, gap="its VM is gone: there is nothing to take evidence from"))
    nodes = [node for node in lacking if node.instance_id or node.address]
    if not nodes:
        return
    place = folder / "evidence"
    place.mkdir(mode=0o700, exist_ok=True)
    try:
        saved = save_evidence(plan.loaded, nodes, plan.diagnoses, clients, place, plan.request.record, on_event)
    except NdctlError as error:
        for node in nodes:
            entry = repairs.get(node.name)
            assert entry is not None
            repairs.put(entry.at(Phase.FAILED, ended=now(), error=f"no evidence: {error.message}"))
        raise
    told = Event("repair", "done", plan.cluster.name, step="evidence", message=f"saved in {saved.folder}")
    on_event(told)
    for node in nodes:
        entry, gap = repairs.get(node.name), saved.gaps.get(node.name, "")
        assert entry is not None
        if gap:
            on_event(Event("note", "failed", plan.cluster.name, node.rack, node.name, message=f"evidence {gap}"))
        before = saved.before[node.name]
        repairs.put(
            entry.at(Phase.EVIDENCE, before=before, evidence=str(saved.folder), run=saved.run, gap=gap)
        )  # fmt: skip


def _each_rack(
    plan: RepairPlan,
    repairs: Repairs,
    step: Callable[[Node, Entry], Entry],
    stop: threading.Event,
    on_event: EventSink,
    at: str,
    targets: Sequence[Target] | None = None,
) -> dict[str, NdctlError]:
    """Racks side by side, the nodes of one rack after another. Node -> why its step failed; what was refused ends."""
    from azure.core.exceptions import AzureError

    from ndctl.azure.faults import error_from_fault, fault_from_exception
    from ndctl.azure.waiting import DeadlinePassed

    racks: dict[str, list[Node]] = {}
    for one in plan.targets if targets is None else targets:
        racks.setdefault(one.node.rack, []).append(one.node)
    failed: dict[str, NdctlError] = {}

    def work(nodes: list[Node]) -> None:
        for node in nodes:
            entry = repairs.get(node.name)
            if entry is None or stop.is_set():
                return
            try:
                step(node, entry)
            except AzureError as error:
                refused = _refused(error, repairs.get(node.name))
                fault = fault_from_exception(error)
                failed[node.name] = error_from_fault(
                    fault, f"{node.name}: {entry.action.value}", ExitCode.DEPLOY_FAILED
                )
            except NdctlError as error:
                refused = entry.action.on_the_node and not isinstance(error, DeadlinePassed)
                failed[node.name] = error
            if node.name in failed:
                message = failed[node.name].message
                stands = repairs.get(node.name)
                if refused and stands is not None:
                    repairs.put(stands.at(Phase.FAILED, ended=at, error=message))
                on_event(Event("repair", "failed", plan.cluster.name, node.rack, node.name, message=message))

    done = side_by_side(list(racks.values()), work, workers=_RACKS_AT_ONCE, stop=stop)
    if done.interrupted or stop.is_set():
        raise Stopped
    return failed


def _refused(error: AzureError, entry: Entry | None) -> bool:
    """Whether Azure said that it did not and will not do it. A connection that broke, a server's own fault and a look
    at the operation that failed leave that open; and a VM that is deleted already lacks its successor."""
    from azure.core.exceptions import HttpResponseError

    from ndctl.azure.faults import FaultError

    if entry is None or entry.phase in (Phase.DELETED, Phase.ACTED, Phase.BACK):
        return False
    if isinstance(error, FaultError):
        return True
    status = error.status_code if isinstance(error, HttpResponseError) else None
    if status is None:
        return False
    # An operation that ended as failed is told by an answer that is none.
    return 200 <= status < 300 if entry.operation else status < 500 and status not in (408, 429)


def _validated(
    plan: RepairPlan,
    nodes: Sequence[Node],
    cluster: Cluster,
    open_transport: Opener,
    on_event: EventSink,
    now: Callable[[], datetime],
) -> tuple[Run, ...]:
    """The nodes at standard level, then their racks at quick."""
    names = [node.name for node in nodes]
    racks = frozenset(place[0] for name in names if (place := split_node_name(name)))
    beside = partners(cluster, nodes, plan.loaded, open_transport)
    for rack in sorted({node.rack for node in nodes} - {one.rack for one in beside}):
        if len([node for node in nodes if node.rack == rack]) < 2:
            message = "no idle node beside it: what takes two nodes (NCCL, InfiniBand pairs) cannot be tested"
            on_event(Event("note", "failed", plan.cluster.name, rack, message=message))
    path, record = plan.request.path, plan.request.record
    asked = (
        Request(
            (path,),
            Selection(nodes=",".join([*names, *(one.name for one in beside)])),
            level=Level.STANDARD,
            record=record,
        ),
        Request((path,), Selection(racks=racks), level=Level.QUICK, record=record),
    )
    runs: list[Run] = []
    for one in asked:
        runs.append(validate_inventories(one, on_event=on_event, now=now))
        if runs[-1].interrupted:
            break
    return tuple(runs)


def partners(cluster: Cluster, nodes: Sequence[Node], loaded: Loaded, open_transport: Opener) -> list[Node]:
    """One idle node of each rack of which a single node is meant: tests of a link need its other end, too."""
    meant = {node.name for node in nodes}
    alone = [rack for rack in cluster.racks if sum(node.name in meant for node in rack.nodes) == 1]
    mates = [node for rack in alone for node in rack.nodes if node.name not in meant and node.address]
    if not mates:
        return []
    with closing(open_transport(loaded, cluster, 32)) as transport:
        answers = transport.ask(dict.fromkeys(mates, QUESTIONS))
    free = [node for node in mates if answers[node].outcome.ok and occupancy(answers[node]).use is Use.FREE]
    return list({node.rack: node for node in reversed(free)}.values())
