"""Deploys a plan: the foundation first, then the racks side by side. One rack's failure leaves the others alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError

from ndctl.azure.clients import AzureClients
from ndctl.azure.deployments import DeploymentEnd, Operation
from ndctl.azure.deployments import deploy as deploy_one
from ndctl.azure.faults import AzureFault, fault_from_exception
from ndctl.azure.resources import ensure_group
from ndctl.azure.scale_sets import Instance, list_instances
from ndctl.azure.whatif import ArmDeployment, from_template
from ndctl.model.errors import ExitCode
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.render import names
from ndctl.workflow.deploy_result import DeployResult, Fate, RackEnd
from ndctl.workflow.plan import Act, Plan, Step
from ndctl.workflow.side_by_side import side_by_side

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.render.rendered import Rendered

FOUNDATION_DEADLINE_S = 1800.0
RACK_DEADLINE_S = 5400.0
RACKS_AT_ONCE = 48  # as many as can be watched within the limits: tests/bench/arm-calls.md

_BLOCK = "microsoft.compute/interconnectblocks"
_SCALE_SET = "microsoft.compute/virtualmachinescalesets"


def deploy(
    loaded: Loaded,
    rendered: Rendered,
    plan: Plan,
    clients: AzureClients,
    *,
    on_event: EventSink = ignore_events,
    stop: threading.Event | None = None,
    rack_deadline_s: float = RACK_DEADLINE_S,
    clock: Callable[[], float] = monotonic,
    on_group: Callable[[], None] = lambda: None,
) -> DeployResult:
    """Do exactly what `plan` says. What Azure refuses is part of the result; racks without change are not touched.

    `on_group` is called as soon as the resource group exists, before anything is put into it.
    On Ctrl-C it stops waiting (Azure goes on) and the result is `interrupted`. Raises NdctlError only when the
    resource group cannot be created.
    """
    stop = stop or threading.Event()
    work = _Work(loaded, clients, on_event, stop, rack_deadline_s, clock)
    deployments = {one.name: one for one in rendered.deployments}
    wanted = [step for step in plan.racks if step.act is not Act.SURPLUS]
    if not plan.group_exists and plan.has_changes:
        cluster = plan.cluster
        with clients.telling(f"creating resource group {clients.resource_group}", ExitCode.DEPLOY_FAILED):
            ensure_group(clients, cluster, names.tags(cluster, None, loaded.inventory.tags))
        on_group()
    grounds = side_by_side(
        [plan.foundation], lambda step: work.foundation(step, deployments[step.name]), workers=1, stop=stop
    )
    foundation = grounds.results.get(0, RackEnd("foundation", Fate.STILL_RUNNING))
    if grounds.interrupted or not foundation.fate.as_planned:
        racks = tuple(_not_sent(step) for step in wanted)
        return DeployResult(plan.cluster, plan.inventory, plan.digest, foundation, racks, grounds.interrupted)
    sent = [step for step in wanted if step.act.sends]
    ended = side_by_side(sent, lambda step: work.rack(step, deployments[step.name]), workers=RACKS_AT_ONCE, stop=stop)
    by_name = {step.name: ended.results.get(index) for index, step in enumerate(sent)}
    racks = tuple(by_name.get(step.name) or _not_sent(step) for step in wanted)
    interrupted = ended.interrupted
    return DeployResult(plan.cluster, plan.inventory, plan.digest, foundation, racks, interrupted)


def _not_sent(step: Step) -> RackEnd:
    end = RackEnd(step.rack, Fate.NOT_STARTED, step.expected_vms, step.live_vms or 0)
    if step.act is Act.NO_CHANGE:
        return replace(end, fate=Fate.UNCHANGED)
    if step.act is Act.REFUSED:
        return replace(end, fate=Fate.REFUSED, fault=step.fault)
    return end


class _Work:
    """What one thread does: send one deployment, watch it, count what came of it."""

    def __init__(
        self,
        loaded: Loaded,
        clients: AzureClients,
        on_event: EventSink,
        stop: threading.Event,
        rack_deadline_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.loaded, self.clients, self.on_event, self.stop = loaded, clients, on_event, stop
        self.cluster, self.rack_deadline_s, self.clock = loaded.inventory.cluster, rack_deadline_s, clock

    def foundation(self, step: Step, deployment: ArmDeployment) -> RackEnd:
        if step.act is Act.REFUSED:
            return RackEnd("foundation", Fate.REFUSED, fault=step.fault)
        if not step.act.sends:
            return RackEnd("foundation", Fate.UNCHANGED)
        self._tell("", "started", step.act.value)

        def progress(seen: Sequence[Operation]) -> None:
            done = sum(1 for one in seen if one.state.casefold() == "succeeded")
            self._tell("", "running", f"{done} of {len(step.changes)} resources")

        end = self._send(deployment, FOUNDATION_DEADLINE_S, progress)
        result = RackEnd("foundation", _fate(end), seconds=end.seconds, fault=end.fault, detail=_detail(end))
        self._tell("", "done" if end.succeeded else "failed", result.fate.value)
        return result

    def rack(self, step: Step, deployment: ArmDeployment) -> RackEnd:
        self._tell(step.rack, "started", step.act.value)
        scale_set = _scale_set(deployment)

        def progress(seen: Sequence[Operation]) -> None:
            begun = any(one.type.casefold() == _SCALE_SET for one in seen)
            there = self._count(scale_set) if begun and scale_set else None
            self._tell(step.rack, "running", _rack_progress(seen, step.expected_vms, there))

        end = self._send(deployment, self.rack_deadline_s, progress)
        if end.still_running:
            fate, detail = Fate.STILL_RUNNING, _detail(end)
            result = RackEnd(step.rack, fate, step.expected_vms, None, end.seconds, detail=detail)
        else:
            try:
                result = self._judge(step, scale_set, end)
            except AzureError as error:
                fault = end.fault or fault_from_exception(error)
                detail = "its VMs could not be counted"
                result = RackEnd(step.rack, Fate.FAILED, step.expected_vms, None, end.seconds, fault, detail=detail)
        self._tell_end(result)
        return result

    def _judge(self, step: Step, scale_set: str, end: DeploymentEnd) -> RackEnd:
        """Azure may say Succeeded with fewer VMs than asked, and Failed with most of them running: count."""
        instances, gone = self._instances(scale_set)
        there = sum(1 for one in instances if one.deployed)
        failed = [one for one in instances if one.provisioning == "failed"]
        # The instances know the cause best: the deployment may only say that allocation was incomplete.
        fault = next((one.fault for one in failed if one.fault and one.fault.innermost_code), None) or end.fault or gone
        if end.succeeded and there >= step.expected_vms:
            fate = Fate.DEPLOYED
        else:
            fate = Fate.PARTIAL if there else Fate.FAILED
        none = end.succeeded and not there  # somebody deleted it meanwhile, say
        return RackEnd(
            step.rack,
            fate,
            step.expected_vms,
            there,
            end.seconds,
            fault if fate is not Fate.DEPLOYED else None,
            tuple(one.instance_id for one in failed),
            "Azure calls its deployment succeeded, but no VM of it is there" if none else "",
        )

    def _send(
        self, deployment: ArmDeployment, deadline_s: float, progress: Callable[[Sequence[Operation]], None]
    ) -> DeploymentEnd:
        return deploy_one(
            self.clients, deployment, deadline_s=deadline_s, stop=self.stop, on_progress=progress, clock=self.clock
        )

    def _instances(self, scale_set: str) -> tuple[tuple[Instance, ...], AzureFault | None]:
        """A rack's VMs; what Azure says where it knows no such scale set."""
        if not scale_set:
            return (), None
        try:
            return list_instances(self.clients, scale_set), None
        except AzureError as error:
            # Not there at all is zero VMs; anything else would make a count of zero a lie.
            fault = fault_from_exception(error)
            if fault.status != 404:
                raise
            return (), fault

    def _count(self, scale_set: str) -> int | None:
        try:
            return sum(1 for one in list_instances(self.clients, scale_set) if one.deployed)
        except AzureError:
            return None  # only for the progress line

    def _tell_end(self, end: RackEnd) -> None:
        if end.fate is Fate.STILL_RUNNING:
            self._tell(end.name, "waiting", "still running in Azure, no longer watched")
            return
        status = "done" if end.fate.as_planned else "failed"
        there = "an unknown number" if end.deployed_vms is None else end.deployed_vms
        self._tell(end.name, status, f"{end.fate.value}: {there} of {end.expected_vms} VMs")

    def _tell(self, rack: str, status: str, message: str) -> None:
        step = "" if rack else "foundation"
        self.on_event(Event("deploy", status, cluster=self.cluster, rack=rack, step=step, message=message))


def _scale_set(deployment: ArmDeployment) -> str:
    resources = from_template(deployment, "")
    return next((one.name for one in resources if one.type.casefold() == _SCALE_SET), "")


def _fate(end: DeploymentEnd) -> Fate:
    if end.still_running:
        return Fate.STILL_RUNNING
    return Fate.DEPLOYED if end.succeeded else Fate.FAILED


def _detail(end: DeploymentEnd) -> str:
    return {"deadline": f"no end after {end.seconds:.0f} s; Azure goes on with it"}.get(end.still_running, "")


def _rack_progress(seen: Sequence[Operation], expected: int, there: int | None) -> str:
    """`block 18/18 ✓   scale set 18/18   running 16/18`"""
    states = {one.type.casefold(): one.state for one in seen}
    parts = []
    if _BLOCK in states:
        done = states[_BLOCK].casefold() == "succeeded"
        parts.append(f"block {expected} ✓" if done else f"block {states[_BLOCK].lower()}")
    if _SCALE_SET in states:
        done = states[_SCALE_SET].casefold() == "succeeded"
        parts.append("scale set ✓" if done else f"scale set {states[_SCALE_SET].lower()}")
        if there is not None:
            parts.append(f"running {there}/{expected}")
    return "   ".join(parts) or "waiting for Azure"
