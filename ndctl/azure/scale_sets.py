"""The racks as Azure has them: scale sets by tag, their instances, addresses and interconnect subgroups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ndctl.azure.clients import COMPUTE_API, AzureClients
from ndctl.azure.faults import AzureFault, fault_from_body
from ndctl.azure.resources import find_group
from ndctl.render import names


@dataclass(frozen=True, slots=True)
class ScaleSet:
    """rack: "rack07" from the tag; capacity: what it was last asked for; provisioning: Succeeded, Failed, ..."""

    id: str
    name: str
    rack: str
    capacity: int
    vm_size: str
    provisioning: str


@dataclass(frozen=True, slots=True)
class Instance:
    """One VM of a scale set. `provisioning` and `power` in lower case; `subgroup` is the interconnect subgroup."""

    instance_id: str
    resource_id: str
    vm_id: str
    provisioning: str
    power: str
    subgroup: str
    fault: AzureFault | None = None

    @property
    def deployed(self) -> bool:
        return self.provisioning == "succeeded"


def list_scale_sets(clients: AzureClients, cluster: str) -> tuple[ScaleSet, ...]:
    """The scale sets that carry the cluster's tags, by name. Empty when the group does not exist."""
    if find_group(clients) is None:
        return ()
    found = []
    for one in clients.compute.virtual_machine_scale_sets.list(clients.resource_group, api_version=COMPUTE_API):
        tags = {key.casefold(): value for key, value in (one.tags or {}).items()}
        if tags.get(names.TAG_CLUSTER) != cluster or not tags.get(names.TAG_RACK):
            continue
        found.append(
            ScaleSet(
                id=one.id or "",
                name=one.name or "",
                rack=tags[names.TAG_RACK],
                capacity=int(one.sku.capacity or 0) if one.sku else 0,
                vm_size=(one.sku.name or "") if one.sku else "",
                provisioning=(one.properties.provisioning_state or "") if one.properties else "",
            )
        )
    return tuple(sorted(found, key=lambda s: s.name))


def list_instances(clients: AzureClients, scale_set: str) -> tuple[Instance, ...]:
    """All instances with their instance view, by instance id (as a number where it is one)."""
    listed = clients.compute.virtual_machine_scale_set_vms.list(
        clients.resource_group, scale_set, expand="instanceView", api_version=COMPUTE_API
    )
    return tuple(sorted((_instance(one) for one in listed), key=lambda i: instance_order(i.instance_id)))


def list_addresses(clients: AzureClients, scale_set: str) -> dict[str, str]:
    """Instance id -> private address of its primary interface; instances without one are left out."""
    listed = clients.network.network_interfaces.list_virtual_machine_scale_set_network_interfaces(
        clients.resource_group, scale_set
    )
    addresses: dict[str, str] = {}
    for nic in listed:
        told = nic.properties
        if told is None or told.virtual_machine is None or not told.virtual_machine.id:
            continue
        instance_id = told.virtual_machine.id.rpartition("/")[2]
        if told.primary is False and instance_id in addresses:
            continue
        for config in told.ip_configurations or ():
            inner = config.properties
            if inner is not None and inner.private_ip_address and inner.primary is not False:
                addresses[instance_id] = inner.private_ip_address
                break
    return addresses


def instance_order(instance_id: str) -> tuple[int, str]:
    return (int(instance_id), "") if instance_id.isdigit() else (1 << 62, instance_id)


def _instance(vm: Any) -> Instance:
    told = vm.properties
    view = told.instance_view if told else None
    provisioning, power, fault = (told.provisioning_state or "").casefold() if told else "", "", None
    for status in (view.statuses or ()) if view else ():
        kind, _, state = (status.code or "").partition("/")
        if kind.casefold() == "powerstate":
            power = state.casefold()
        elif kind.casefold() == "provisioningstate":
            provisioning = state.partition("/")[0].casefold() or provisioning
            if provisioning == "failed":
                body = {"code": state.partition("/")[2], "message": status.message or status.display_status or ""}
                fault = fault_from_body(body)
    placed = view.interconnect_instance_view if view else None
    return Instance(
        instance_id=vm.instance_id or "",
        resource_id=vm.id or "",
        vm_id=(told.vm_id or "") if told else "",
        provisioning=provisioning,
        power=power,
        subgroup=(placed.interconnect_subgroup_id or "") if placed else "",
        fault=fault,
    )
