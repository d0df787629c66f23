"""How Azure placed the racks that it deployed."""

from __future__ import annotations

from ndctl.azure.clients import COMPUTE_API, AzureClients
from ndctl.azure.scale_sets import list_scale_sets


def single_placement_groups(clients: AzureClients, cluster: str) -> dict[str, bool]:
    """Rack -> singlePlacementGroup of its scale set, of those that Azure deployed whole. Raises NdctlError."""
    with clients.telling(f"reading the scale sets of {cluster}"):
        found: dict[str, bool] = {}
        for one in list_scale_sets(clients, cluster):
            if one.provisioning.lower() != "succeeded":
                continue
            told = clients.compute.virtual_machine_scale_sets.get(
                clients.resource_group, one.name, api_version=COMPUTE_API
            )
            value = told.properties.single_placement_group if told.properties else None
            if isinstance(value, bool):
                found[one.rack] = value
        return found
