"""What of a cluster's racks is live in Azure: scale sets and how many of their VMs are really there."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from ndctl.azure.clients import AzureClients
from ndctl.azure.scale_sets import Instance, ScaleSet, list_instances, list_scale_sets
from ndctl.workflow.side_by_side import side_by_side

READERS = 8


@dataclass(frozen=True, slots=True)
class LiveRack:
    """One rack as Azure has it."""

    scale_set: ScaleSet
    instances: tuple[Instance, ...]

    @property
    def deployed(self) -> int:
        return sum(1 for one in self.instances if one.deployed)

    def facts(self) -> dict[str, Any]:
        """What a plan is bound to: when any of it moves, the plan is stale."""
        return {
            "id": self.scale_set.id.casefold(),
            "capacity": self.scale_set.capacity,
            "vm_size": self.scale_set.vm_size,
            "provisioning": self.scale_set.provisioning,
            "instances": sorted([one.instance_id, one.vm_id, one.provisioning] for one in self.instances),
        }


def live_racks(clients: AzureClients, cluster: str) -> dict[str, LiveRack]:
    """Rack name -> what is live, of every scale set that carries the cluster's tags. Raises NdctlError."""
    with clients.telling(f"listing the scale sets of {cluster}"):
        found = list_scale_sets(clients, cluster)
        read = side_by_side(
            found,
            lambda scale_set: LiveRack(scale_set, list_instances(clients, scale_set.name)),
            workers=READERS,
            stop=threading.Event(),
            grace_s=0.2,
        )
    if read.interrupted:
        raise KeyboardInterrupt
    return {read.results[index].scale_set.rack: read.results[index] for index in range(len(found))}
