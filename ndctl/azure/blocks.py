"""The interconnect blocks of a cluster: VMs that Azure holds ready for a rack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ndctl.azure.clients import COMPUTE_API, AzureClients
from ndctl.azure.resources import find_group
from ndctl.render import names


@dataclass(frozen=True, slots=True)
class Block:
    """capacity: asked for; current: really allocated, None where Azure does not tell; vms: ids of its VMs."""

    id: str
    name: str
    rack: str
    capacity: int
    current: int | None
    vms: tuple[str, ...]
    provisioning: str


def list_blocks(clients: AzureClients, cluster: str) -> tuple[Block, ...]:
    """Those that carry the cluster's tags, by name; empty where the group does not exist. Raises AzureError.

    Only of a block that is not settled is the instance view asked for: of the others the capacity is what was asked.
    """
    if find_group(clients) is None:
        return ()
    found = []
    for one in clients.compute.interconnect_blocks.list_by_resource_group(
        clients.resource_group, api_version=COMPUTE_API
    ):
        tags = {key.casefold(): value for key, value in (one.tags or {}).items()}
        if tags.get(names.TAG_CLUSTER) == cluster and tags.get(names.TAG_RACK):
            found.append(_block(clients, one, tags[names.TAG_RACK]))
    return tuple(sorted(found, key=lambda block: block.name))


def _block(clients: AzureClients, one: Any, rack: str) -> Block:
    told = one.properties
    capacity = int(one.sku.capacity or 0) if one.sku else 0
    state = (told.provisioning_state or "") if told else ""
    return Block(
        id=one.id or "",
        name=one.name or "",
        rack=rack,
        capacity=capacity,
        current=capacity if state.casefold() == "succeeded" else _current(clients, one.name or ""),
        vms=tuple(vm.id or "" for vm in (told.virtual_machines_associated or ())) if told else (),
        provisioning=state,
    )


def _current(clients: AzureClients, name: str) -> int | None:
    seen = clients.compute.interconnect_blocks.get(
        clients.resource_group, name, expand="instanceView", api_version=COMPUTE_API
    )
    view = seen.properties.instance_view if seen.properties else None
    return view.current_capacity if view else None
