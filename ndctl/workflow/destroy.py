"""Removes a cluster: only what carries its tags, users before what they use, and the group only if ndctl made it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError

from ndctl.azure.calls import Calls
from ndctl.azure.clients import AzureClients
from ndctl.azure.faults import DEADLINE_PASSED, AzureFault, fault_from_deadline, fault_from_exception
from ndctl.azure.resources import GroupContents, Resource, delete_group, delete_resource, list_group
from ndctl.azure.waiting import DeadlinePassed
from ndctl.checks.azure_errors import FaultClass
from ndctl.model.errors import ExitCode, NdctlError, worst_exit
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.workflow.destroy_causes import held_by
from ndctl.workflow.side_by_side import side_by_side

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

DESTROY_SCHEMA = "ndctl.destroy/1"
DELETES_AT_ONCE = 8
_PASSING = (FaultClass.CONFLICT, FaultClass.NETWORK, FaultClass.PLATFORM, FaultClass.THROTTLE)
# A delete may be refused because something before it in the order is still on its way out.
PASSES = 3


@dataclass(frozen=True, slots=True)
class DestroyPlan:
    """What will go. `group` tells what else is in the resource group."""

    cluster: str
    inventory: str
    resource_group: str
    group: GroupContents

    @property
    def resources(self) -> tuple[Resource, ...]:
        return self.group.ours

    @property
    def deletes_group(self) -> bool:
        """Only a group that ndctl created for this cluster, and that holds nothing else."""
        return self.group.exists and self.group.created_by_ndctl and not self.group.foreign

    @property
    def nothing_to_do(self) -> bool:
        return not self.resources and not self.deletes_group


@dataclass(frozen=True, slots=True)
class DestroyResult:
    plan: DestroyPlan
    gone: tuple[Resource, ...]
    failed: tuple[tuple[Resource, AzureFault], ...] = ()
    group_deleted: bool = False
    group_fault: AzureFault | None = None
    interrupted: bool = False
    run: str = ""
    calls: Calls = field(default_factory=Calls)
    lost_lock_to: str = ""  # who took the cluster's lock meanwhile

    @property
    def left(self) -> tuple[Resource, ...]:
        known = {one.id for one in self.gone} | {one.id for one, _ in self.failed}
        return tuple(one for one in self.plan.resources if one.id not in known)

    @property
    def held_by(self) -> Mapping[str, Resource]:
        """Of what failed only as a consequence: resource id -> the failed resource that still uses it."""
        return held_by(self.failed)

    @property
    def group_stays(self) -> str:
        """Why the resource group is still there although it was to go, "" otherwise."""
        if self.group_deleted or not self.plan.deletes_group:
            return ""
        if self.failed or self.left:
            return "not all of it is gone"
        if self.group_fault:
            return "Azure did not delete it"
        return "interrupted before its turn" if self.interrupted else "something was put into it meanwhile"

    @property
    def exit_code(self) -> ExitCode:
        if self.interrupted:
            return ExitCode.INTERRUPTED
        faults = [fault for _, fault in self.failed] + ([self.group_fault] if self.group_fault else [])
        codes = [fault.exit_code for fault in faults if fault.exit_code]
        if self.lost_lock_to:
            codes.append(ExitCode.LOCKED_OR_STALE)
        if faults or self.left:
            codes.append(ExitCode.DEPLOY_PARTIAL if self.gone else ExitCode.DEPLOY_FAILED)
        return worst_exit(codes)

    @property
    def summary(self) -> str:
        """`41 of 41 resources deleted, and resource group rg-swc-a`"""
        text = f"{len(self.gone)} of {len(self.plan.resources)} resources deleted"
        return f"{text}, and resource group {self.plan.resource_group}" if self.group_deleted else text

    def as_dict(self) -> dict[str, Any]:
        """The published form."""
        return {
            "schema": DESTROY_SCHEMA,
            "cluster": self.plan.cluster,
            "inventory": self.plan.inventory,
            "resource_group": {
                "name": self.plan.resource_group,
                "exists": self.plan.group.exists and not self.group_deleted,
                "deleted": self.group_deleted,
                "stays": self.group_stays or None,
                "foreign_resources": len(self.plan.group.foreign),
                "fault": self.group_fault.as_dict() if self.group_fault else None,
            },
            "gone": [one.id for one in self.gone],
            "failed": self._failures(),
            "left": [one.id for one in self.left],
            "interrupted": self.interrupted,
            "run": self.run,
            "calls": self.calls.as_dict(),
            "lost_lock_to": self.lost_lock_to,
            "exit_code": int(self.exit_code),
        }

    def _failures(self) -> list[dict[str, Any]]:
        """What waits for another resource is not helped by trying it again, whatever Azure's error says of itself."""
        holds, told = self.held_by, []
        for one, fault in self.failed:
            entry = {"id": one.id, "fault": fault.as_dict(), "held_by": None}
            if holder := holds.get(one.id):
                step = f"First let {label(holder)} go, which uses it; its own failure says how."
                entry |= {"fault": {**fault.as_dict(), "retryable": False, "next_step": step}, "held_by": holder.id}
            told.append(entry)
        return told


def plan_destroy(loaded: Loaded, clients: AzureClients) -> DestroyPlan:
    """What would go. Raises NdctlError: 4 for `protect: true`, 3 or 4 when Azure cannot be asked."""
    refuse_protected(loaded)
    cluster = loaded.inventory.cluster
    with clients.telling(f"listing resource group {clients.resource_group}"):
        group = list_group(clients, cluster)
    return DestroyPlan(cluster, str(loaded.path), clients.resource_group, group)


def refuse_protected(loaded: Loaded) -> None:
    """`protect: true` wins over every option and every answer."""
    if loaded.inventory.protect:
        raise NdctlError(
            "destroy.protected",
            f"{loaded.inventory.cluster} is protected: 'protect: true' in the inventory; nothing was deleted",
            hint="whoever is sure changes that line to 'protect: false' first",
            where=loaded.where("protect"),
            exit_code=ExitCode.PREFLIGHT,
        )


def destroy(
    plan: DestroyPlan,
    clients: AzureClients,
    *,
    on_event: EventSink = ignore_events,
    stop: threading.Event | None = None,
) -> DestroyResult:
    """Delete stage by stage: scale sets, blocks, groups, VMs, networks. What fails is named and tried again after the
    others; what is already gone is fine. The resource group goes last, and only when nothing of it is left."""
    stop = stop or threading.Event()
    gone: list[Resource] = []
    failed: dict[str, tuple[Resource, AzureFault]] = {}
    todo: Sequence[Resource] = plan.resources
    for _ in range(PASSES):
        for _stage, members in groupby(todo, key=lambda one: one.stage):
            stage = list(members)
            ended = side_by_side(
                stage,
                lambda one: _delete(clients, plan.cluster, one, on_event),
                workers=DELETES_AT_ONCE,
                stop=stop,
                grace_s=1.0,
            )
            for index, resource in enumerate(stage):
                if index not in ended.results:
                    continue
                fault = ended.results[index]
                if fault is None:
                    gone.append(resource)
                    failed.pop(resource.id, None)
                else:
                    failed[resource.id] = (resource, fault)
            if ended.interrupted or stop.is_set():
                return DestroyResult(plan, tuple(gone), tuple(failed.values()), interrupted=ended.interrupted)
        before, todo = todo, _again(tuple(failed.values()))
        if not todo or len(todo) == len(before):
            break
    result = DestroyResult(plan, tuple(gone), tuple(failed.values()))
    if failed or not plan.deletes_group:
        return result
    return _delete_empty_group(result, clients, on_event)


def _again(failed: Sequence[tuple[Resource, AzureFault]]) -> list[Resource]:
    """What another pass may delete: not what is in use by something that failed for good."""
    for_good = {one.id for one, fault in failed if not _worth_another_pass(fault)}
    holds = held_by(failed)
    return [
        one for one, _ in failed
        if one.id not in for_good and not (one.id in holds and holds[one.id].id in for_good)
    ]  # fmt: skip


def _worth_another_pass(fault: AzureFault) -> bool:
    """Something before it may still be on its way out, or Azure did not answer; what waits for a deadline is enough."""
    return fault.fault_class in _PASSING and fault.innermost_code != DEADLINE_PASSED


def _delete(clients: AzureClients, cluster: str, resource: Resource, on_event: EventSink) -> AzureFault | None:
    def tell(status: str, message: str) -> None:
        on_event(Event("destroy", status, cluster=cluster, rack=resource.rack, step=label(resource), message=message))

    tell("started", "deleting")
    fault = delete_resource(clients, resource)
    tell("failed" if fault else "done", fault.summary if fault else "gone")
    return fault


def _delete_empty_group(result: DestroyResult, clients: AzureClients, on_event: EventSink) -> DestroyResult:
    """Look once more before deleting a whole group: somebody may have put something into it meanwhile."""
    plan, name = result.plan, result.plan.resource_group
    try:
        now = list_group(clients, plan.cluster)
        if now.exists and (now.foreign or now.ours):
            return result
        if now.exists:
            step = f"resource group {name}"
            on_event(Event("destroy", "started", cluster=plan.cluster, step=step, message="deleting"))
            delete_group(clients)
            on_event(Event("destroy", "done", cluster=plan.cluster, step=step, message="gone"))
    except (AzureError, DeadlinePassed) as error:
        fault = fault_from_exception(error) if isinstance(error, AzureError) else fault_from_deadline(error)
        return replace(result, group_fault=fault)
    return replace(result, group_deleted=True)


def label(resource: Resource) -> str:
    """virtualMachineScaleSets/swc-a-rack07"""
    return f"{resource.type.rpartition('/')[2]}/{resource.name}"
