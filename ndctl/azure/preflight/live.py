"""Which VMs of a cluster stand already, so that nothing is counted twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ndctl.azure.clients import COMPUTE_API, AzureClients
from ndctl.azure.scale_sets import ScaleSet, list_instances, list_scale_sets
from ndctl.model.places import rack_name
from ndctl.render import names


@dataclass(frozen=True, slots=True)
class Block:
    """allocated: VMs that Azure holds for it, None when it does not say; group: the interconnect group's id."""

    name: str
    rack: str
    vm_size: str
    capacity: int
    allocated: int | None
    provisioning: str
    zones: tuple[str, ...]
    group: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Blocks and VMs by rack. A block's cores count whether or not VMs stand in it."""

    blocks: Mapping[str, Block] = field(default_factory=dict)
    vms: Mapping[str, int] = field(default_factory=dict)

    def of(self, rack: str) -> int:
        """VMs whose cores this rack uses already."""
        block = self.blocks.get(rack)
        held = (block.allocated or 0) if block else 0
        return max(held, self.vms.get(rack, 0))

    def missing(self, racks: int, vms_per_rack: int) -> dict[str, int]:
        """Rack name -> VMs that are asked for and do not stand; racks that lack none are left out."""
        each = {rack_name(number): 0 for number in range(1, racks + 1)}
        found = {rack: max(0, vms_per_rack - self.of(rack)) for rack in each}
        return {rack: lacking for rack, lacking in found.items() if lacking}


def standing_vms(clients: AzureClients, cluster: str, group_exists: bool) -> Standing:
    """Raises AzureError. A rack whose scale set is not whole is counted VM by VM."""
    if not group_exists:
        return Standing()
    vms = {one.rack: _vms(clients, one) for one in list_scale_sets(clients, cluster)}
    return Standing({one.rack: one for one in _blocks(clients, cluster)}, vms)


def _vms(clients: AzureClients, scale_set: ScaleSet) -> int:
    if scale_set.provisioning.casefold() == "succeeded":
        return scale_set.capacity
    return sum(1 for one in list_instances(clients, scale_set.name) if one.deployed)


def _blocks(clients: AzureClients, cluster: str) -> list[Block]:
    found = []
    for one in clients.compute.interconnect_blocks.list_by_resource_group(
        clients.resource_group, api_version=COMPUTE_API
    ):
        tags = {key.casefold(): value for key, value in (one.tags or {}).items()}
        if tags.get(names.TAG_CLUSTER) == cluster and tags.get(names.TAG_RACK):
            found.append(_block(clients, one, tags[names.TAG_RACK]))
    return found


def _block(clients: AzureClients, told: Any, rack: str) -> Block:
    capacity = int(told.sku.capacity or 0) if told.sku else 0
    inner = told.properties
    state = str(inner.provisioning_state or "") if inner else ""
    allocated: int | None = capacity
    if state.casefold() != "succeeded":
        allocated = _allocated(clients, told.name or "")
    return Block(
        name=told.name or "",
        rack=rack,
        vm_size=(told.sku.name or "") if told.sku else "",
        capacity=capacity,
        allocated=allocated,
        provisioning=state,
        zones=tuple(told.zones or ()),
        group=(inner.interconnect_group.id or "") if inner and inner.interconnect_group else "",
    )


def _allocated(clients: AzureClients, name: str) -> int | None:
    """Only the instance view says how much of a block that is not whole Azure holds."""
    told = clients.compute.interconnect_blocks.get(
        clients.resource_group, name, expand="instanceView", api_version=COMPUTE_API
    )
    view = told.properties.instance_view if told.properties else None
    return int(view.current_capacity) if view and view.current_capacity is not None else None
