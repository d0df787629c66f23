"""How many whole racks an interconnect group says are free: the one place where Azure tells capacity beforehand."""

from __future__ import annotations

from dataclasses import dataclass

from azure.core.exceptions import AzureError

from ndctl.azure.clients import ASKS_ONLY, NETWORK_API, AzureClients
from ndctl.azure.faults import fault_from_exception
from ndctl.azure.waiting import finish
from ndctl.model.errors import NdctlError

ASK_DEADLINE_S = 120


@dataclass(frozen=True, slots=True)
class Availability:
    """whole_racks: racks in which every node is in service and none in use. `problem` when it was not told."""

    whole_racks: int = 0
    free_nodes: int = 0
    problem: str = ""


def node_availability(clients: AzureClients, interconnect_group: str) -> Availability:
    """Ask the group. A refusal is an answer too: capacity then stays unknown until deployment."""
    try:
        poller = clients.network.interconnect_groups.begin_get_node_availability(
            clients.resource_group, interconnect_group, api_version=NETWORK_API, **ASKS_ONLY
        )
        told = finish(poller, ASK_DEADLINE_S, f"node availability of {interconnect_group}")
    except AzureError as error:
        fault = fault_from_exception(error)
        return Availability(problem=f"node availability is not told ({fault.innermost_code or fault.code})")
    except NdctlError as error:
        return Availability(problem=error.message)
    racks = nodes = 0
    for one in told.subgroups_node_availability or ():
        in_service, in_use = one.in_service_node_count or 0, one.in_use_node_count or 0
        nodes += max(0, in_service - in_use)
        racks += in_use == 0 and in_service > 0 and in_service == (one.count or in_service)
    return Availability(racks, nodes)
