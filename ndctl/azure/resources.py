"""What of a cluster exists in its resource group, found by tag, and how each thing is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.mgmt.resource.resources.models import ResourceGroup

from ndctl.azure.clients import COMPUTE_API, NETWORK_API, AzureClients
from ndctl.azure.faults import AzureFault, fault_from_deadline, fault_from_exception
from ndctl.azure.waiting import DeadlinePassed, finish
from ndctl.model.errors import NdctlError
from ndctl.render import names

DELETE_DEADLINE_S = 1800
TAG_GROUP_CREATED = "ndctl-created-group"

# In this order: whatever stands earlier uses what stands later. Types not listed go just before the networks.
_ORDER = (
    "microsoft.compute/virtualmachinescalesets",
    "microsoft.compute/interconnectblocks",
    "microsoft.network/interconnectgroups",
    "microsoft.compute/virtualmachines",
    "microsoft.network/networkinterfaces",
    "microsoft.compute/disks",
    "",
    "microsoft.network/virtualnetworks",
    "microsoft.network/natgateways",
    "microsoft.network/publicipaddresses",
    "microsoft.network/networksecuritygroups",
    "microsoft.managedidentity/userassignedidentities",
)
_API = {
    "microsoft.compute/disks": "2025-01-02",
    "microsoft.compute": COMPUTE_API,
    "microsoft.network": "2025-07-01",
    "microsoft.network/interconnectgroups": NETWORK_API,
    "microsoft.managedidentity": "2024-11-30",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """One tagged resource. rack: "rack07" or "" for the foundation."""

    id: str
    type: str
    name: str
    rack: str
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def stage(self) -> int:
        kind = self.type.casefold()
        return _ORDER.index(kind) if kind in _ORDER else _ORDER.index("")


@dataclass(frozen=True, slots=True)
class GroupContents:
    """A resource group: does it exist, did ndctl create it for this cluster, what is the cluster's, what is not."""

    exists: bool
    created_by_ndctl: bool
    ours: tuple[Resource, ...] = ()
    foreign: tuple[Resource, ...] = ()


def find_group(clients: AzureClients) -> ResourceGroup | None:
    """The resource group; None only when Azure says that just it does not exist.

    A subscription that this identity cannot see is a 404 too, and must not look like an empty cluster.
    """
    try:
        return clients.resources.resource_groups.get(clients.resource_group)
    except ResourceNotFoundError as error:
        if fault_from_exception(error).innermost_code.casefold() == "resourcegroupnotfound":
            return None
        raise


def list_group(clients: AzureClients, cluster: str) -> GroupContents:
    """Everything in the resource group, split by the cluster's tags, in the order in which it can be deleted."""
    group = find_group(clients)
    if group is None:
        return GroupContents(exists=False, created_by_ndctl=False)
    tags = _lower(group.tags)
    created = tags.get(TAG_GROUP_CREATED) == cluster
    ours: list[Resource] = []
    foreign: list[Resource] = []
    for one in clients.resources.resources.list_by_resource_group(clients.resource_group):
        told = _lower(one.tags)
        resource = Resource(
            one.id or "", one.type or "", one.name or "", rack=told.get(names.TAG_RACK, ""), tags=dict(one.tags or {})
        )
        mine = told.get(names.TAG_CLUSTER) == cluster and told.get(names.TAG_MANAGED_BY) == names.MANAGED_BY
        (ours if mine else foreign).append(resource)
    return GroupContents(True, created, _ordered(ours), _ordered(foreign))


def ensure_group(clients: AzureClients, cluster: str, tags: Mapping[str, str]) -> bool:
    """Create the resource group when it does not exist, marked as ours; True when it was created here."""
    if find_group(clients) is not None:
        return False
    clients.resources.resource_groups.create_or_update(
        clients.resource_group,
        {"location": clients.region, "tags": {**tags, TAG_GROUP_CREATED: cluster}},
    )
    return True


def delete_resource(
    clients: AzureClients, resource: Resource, deadline_s: float = DELETE_DEADLINE_S
) -> AzureFault | None:
    """Delete and wait, at most `deadline_s`.

    None when it is gone (also when it was gone before); the fault when Azure would not, or did not in time.
    """
    start = monotonic()
    kind = resource.type.casefold()
    version = _API.get(kind) or _API.get(kind.partition("/")[0])
    try:
        if version is None:
            version = _newest_version(clients, resource.type)
        poller = clients.resources.resources.begin_delete_by_id(resource.id.lstrip("/"), api_version=version)
        finish(poller, max(1.0, deadline_s - (monotonic() - start)), f"deleting {resource.name}")
    except ResourceNotFoundError:
        return None
    except AzureError as error:
        return fault_from_exception(error)
    except DeadlinePassed as error:
        return fault_from_deadline(error)
    return None


def delete_group(clients: AzureClients) -> None:
    """Delete the resource group itself. Raises AzureError; already gone is fine."""
    try:
        poller = clients.resources.resource_groups.begin_delete(clients.resource_group)
        finish(poller, DELETE_DEADLINE_S, f"deleting resource group {clients.resource_group}")
    except ResourceNotFoundError:
        return


def _newest_version(clients: AzureClients, resource_type: str) -> str:
    namespace, _, kind = resource_type.partition("/")
    provider: Any = clients.resources.providers.get(namespace)
    for one in provider.resource_types or ():
        if (one.resource_type or "").casefold() == kind.casefold():
            stable = [v for v in one.api_versions or () if "preview" not in v]
            if stable:
                return str(max(stable))
    raise NdctlError("azure.unknown-type", f"Azure names no API version for {resource_type}")


def _ordered(resources: list[Resource]) -> tuple[Resource, ...]:
    return tuple(sorted(resources, key=lambda r: (r.stage, r.rack, r.type.casefold(), r.name)))


def _lower(tags: Mapping[str, str] | None) -> dict[str, str]:
    """Tag names ignore case in Azure; their values do not."""
    return {key.casefold(): value for key, value in (tags or {}).items()}
