"""What a deployment would do: the foundation and every rack, from ARM's what-if and from what is live.

Nothing is changed here. A plan is bound by digests to the inventory, the templates and the live state it was made
from; `deploy --plan` does exactly that plan or refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError, ServiceRequestError, ServiceResponseError

from ndctl.azure.availability import node_availability
from ndctl.azure.clients import AzureClients
from ndctl.azure.faults import AzureFault, endpoint_unreachable, fault_from_exception
from ndctl.azure.preflight.base import Ask
from ndctl.azure.preflight.quota import refusal_of_plan
from ndctl.azure.resources import GroupContents, list_group
from ndctl.azure.whatif import ArmDeployment, Change, ChangeKind, from_template, what_if
from ndctl.model.errors import ExitCode
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.render import names
from ndctl.workflow.digests import digest_of
from ndctl.workflow.live import LiveRack, live_racks
from ndctl.workflow.plan_meaning import only_noise
from ndctl.workflow.side_by_side import side_by_side

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.render.rendered import Rendered

PLAN_SCHEMA = "ndctl.plan/1"
WHAT_IFS_AT_ONCE = 8
# Codes that only mean "the foundation this rack stands on is not there yet".
_NEEDS_FOUNDATION = {"resourcenotfound", "notfound", "invalidresourcereference", "parentresourcenotfound"}


class Act(StrEnum):
    """What deploy would do with a rack (or the foundation)."""

    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"
    NO_CHANGE = "no change"
    REFUSED = "refused"  # Azure already says no
    SURPLUS = "beyond the inventory"  # live, but not asked for; never touched by deploy

    @property
    def sends(self) -> bool:
        return self in (Act.CREATE, Act.MODIFY, Act.DELETE)


@dataclass(frozen=True, slots=True)
class Step:
    """The foundation (`rack` is "") or one rack."""

    name: str  # of the ARM deployment, or of the live scale set
    rack: str
    act: Act
    changes: tuple[Change, ...] = ()
    expected_vms: int = 0
    live_vms: int | None = None
    notes: tuple[str, ...] = ()
    fault: AzureFault | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    cluster: str
    inventory: str
    subscription: str
    resource_group: str
    region: str
    zone: str
    group_exists: bool
    foundation: Step
    racks: tuple[Step, ...]
    digests: Mapping[str, str] = field(default_factory=dict)  # inventory, templates, live
    not_provable: tuple[str, ...] = ()
    preflight: tuple[str, ...] = ()  # what pre-flight would refuse, as far as a plan looks
    foreign: int = 0  # resources in the group that are not the cluster's; never touched

    @property
    def digest(self) -> str:
        """Of what the plan is bound to and what it would do."""
        acts = [[step.name, step.act.value] for step in (self.foundation, *self.racks)]
        return digest_of([PLAN_SCHEMA, self.cluster, dict(self.digests), acts])

    def count(self, act: Act) -> int:
        return sum(1 for step in self.racks if step.act is act)

    @property
    def has_changes(self) -> bool:
        return self.foundation.act.sends or any(step.act.sends for step in self.racks)

    @property
    def exit_code(self) -> ExitCode:
        """4 when Azure already refuses a step (3 when the identity is to blame)."""
        faults = [step.fault for step in (self.foundation, *self.racks) if step.fault]
        if any(fault.exit_code for fault in faults):
            return ExitCode.PERMISSION
        return ExitCode.PREFLIGHT if faults else ExitCode.OK


def make_plan(loaded: Loaded, rendered: Rendered, clients: AzureClients, on_event: EventSink = ignore_events) -> Plan:
    """Ask ARM about every deployment. Raises NdctlError: 3 identity, 4 when ARM cannot be asked at all."""
    inventory, cluster = loaded.inventory, loaded.inventory.cluster
    with clients.telling(f"listing resource group {clients.resource_group}"):
        group = list_group(clients, cluster)
    live = live_racks(clients, cluster) if group.exists else {}
    asker = _Asker(clients, cluster, group.exists, loaded.vms_per_rack, live, on_event)
    foundation = asker.foundation(rendered.foundation)
    asker.foundation_is_new = foundation.act is not Act.NO_CHANGE
    asked = side_by_side(rendered.racks, asker.rack, workers=WHAT_IFS_AT_ONCE, stop=threading.Event(), grace_s=0.2)
    if asked.interrupted:
        raise KeyboardInterrupt
    racks = [asked.results[index] for index in range(len(rendered.racks))]
    wanted = {one.rack for one in rendered.racks}
    surplus = [_surplus(one) for rack, one in sorted(live.items()) if rack not in wanted]
    missing = sum(step.expected_vms - (step.live_vms or 0) for step in racks if step.act.sends)
    return Plan(
        cluster=cluster,
        inventory=str(loaded.path),
        subscription=clients.subscription,
        resource_group=clients.resource_group,
        region=clients.region,
        zone=inventory.zone or "",
        group_exists=group.exists,
        foundation=foundation,
        racks=(*racks, *surplus),
        digests={
            "inventory": loaded.digest,
            "templates": digest_of([[one.name, one.template, one.parameters] for one in rendered.deployments]),
            "live": digest_of(
                [
                    group.exists,
                    sorted([one.id.casefold(), sorted(one.tags.items())] for one in group.ours),
                    {rack: one.facts() for rack, one in sorted(live.items())},
                    [[_change_facts(change) for change in step.changes] for step in (foundation, *racks)],
                ]
            ),
        },
        not_provable=_not_provable(clients, cluster, group.exists, missing),
        preflight=_quota(loaded, clients, group) if missing else (),
        foreign=len(group.foreign),
    )


class _Asker:
    """Asks ARM about one deployment after another; what ARM refuses becomes part of the plan."""

    def __init__(
        self,
        clients: AzureClients,
        cluster: str,
        group_exists: bool,
        vms: int,
        live: Mapping[str, LiveRack],
        on_event: EventSink,
    ) -> None:
        self.clients, self.cluster, self.group_exists = clients, cluster, group_exists
        self.vms, self.live, self.on_event = vms, live, on_event
        self.foundation_is_new = True

    def foundation(self, deployment: ArmDeployment) -> Step:
        changes, fault, notes = self._ask(deployment, may_lack_foundation=False)
        act = Act.REFUSED if fault else _act(changes)
        return Step(deployment.name, "", act, changes, notes=notes, fault=fault)

    def rack(self, deployment: ArmDeployment) -> Step:
        changes, fault, notes = self._ask(deployment, may_lack_foundation=self.foundation_is_new)
        here = self.live.get(deployment.rack)
        deployed = here.deployed if here else None
        act = Act.REFUSED if fault else _act(changes, exists=here is not None)
        if here is not None and act is Act.NO_CHANGE and here.deployed < self.vms:
            act = Act.MODIFY
            notes += (f"{here.deployed} of {self.vms} VMs exist; the scale set is sent again to get the others",)
        elif here is not None and act is Act.NO_CHANGE and here.scale_set.provisioning.casefold() != "succeeded":
            act = Act.MODIFY
            notes += (f"the scale set is {here.scale_set.provisioning or 'in an unknown state'}; it is sent again",)
        self.on_event(Event("plan", "done", cluster=self.cluster, rack=deployment.rack, message=act.value))
        return Step(deployment.name, deployment.rack, act, changes, self.vms, deployed, notes, fault)

    def _ask(
        self, deployment: ArmDeployment, *, may_lack_foundation: bool
    ) -> tuple[tuple[Change, ...], AzureFault | None, tuple[str, ...]]:
        group_id = names.resource_group_id(self.clients.subscription, self.clients.resource_group)
        if not self.group_exists:
            return from_template(deployment, group_id), None, ()
        try:
            return _ours(what_if(self.clients, deployment), deployment), None, ()
        except (ServiceRequestError, ServiceResponseError) as error:
            endpoint = self.clients.cloud.endpoint
            raise endpoint_unreachable(endpoint, "Azure Resource Manager", error) from error
        except AzureError as error:
            fault = fault_from_exception(error)
        if may_lack_foundation and fault.innermost_code.casefold() in _NEEDS_FOUNDATION:
            why = "Azure can be asked only once the foundation exists; listed from the template"
            return from_template(deployment, group_id), None, (why,)
        return (), fault, ()


def _ours(changes: tuple[Change, ...], deployment: ArmDeployment) -> tuple[Change, ...]:
    """Without what only happens to be in the same resource group: that is counted once, for the whole plan."""
    in_template = {f"{one.type}/{one.name}".casefold() for one in from_template(deployment, "")}
    return tuple(
        one
        for one in changes
        if one.kind is not ChangeKind.IGNORE or f"{one.type}/{one.name}".casefold() in in_template
    )


def _act(changes: tuple[Change, ...], *, exists: bool = True) -> Act:
    """One word for a deployment. A rack without a live scale set is created, whatever else of it exists."""
    kinds = {change.kind for change in changes if not only_noise(change)}
    if not exists:
        return Act.CREATE
    moving = kinds - {ChangeKind.NO_CHANGE, ChangeKind.IGNORE, ChangeKind.UNSUPPORTED}
    if not moving:
        return Act.NO_CHANGE
    if kinds == {ChangeKind.CREATE}:
        return Act.CREATE
    return Act.DELETE if moving == {ChangeKind.DELETE} else Act.MODIFY


def _change_facts(change: Change) -> list[Any]:
    return [
        change.resource_id.casefold(),
        change.kind.value,
        [[one.path, one.kind, one.before, one.after] for one in change.properties],
    ]


def _surplus(rack: LiveRack) -> Step:
    note = "live, but beyond the racks of the inventory; deploy leaves it as it is"
    name, here = rack.scale_set.name, rack.deployed
    return Step(name, rack.scale_set.rack, Act.SURPLUS, expected_vms=0, live_vms=here, notes=(note,))


def _quota(loaded: Loaded, clients: AzureClients, group: GroupContents) -> tuple[str, ...]:
    """What-if asks rack by rack, and for none without a resource group: here quota is held for all at once."""
    told = refusal_of_plan(Ask(loaded, clients, (), group=lambda: group))
    return (told,) if told else ()


def _not_provable(clients: AzureClients, cluster: str, group_exists: bool, missing_vms: int) -> tuple[str, ...]:
    if missing_vms == 0:
        return ()
    line = f"free capacity for {missing_vms} more VMs"
    if not group_exists:
        return (f"{line} (the interconnect group, which could tell, does not exist yet)",)
    told = node_availability(clients, names.interconnect_group(cluster))
    if told.problem:
        return (f"{line} ({told.problem})",)
    racks = f"{told.whole_racks} whole rack{'' if told.whole_racks == 1 else 's'}"
    return (f"{line} (node availability says {racks} and {told.free_nodes} nodes free)",)
