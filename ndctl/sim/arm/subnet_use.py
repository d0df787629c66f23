"""Which addresses of a subnet are taken, as subnets show them (ipConfigurations) and as a network's usages count them.

Shape of usages: the official example VirtualNetworkListUsage.json; limits leave out the five addresses that Azure
keeps of each range.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from ndctl.sim.arm import instances
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.region import Body, Region

_KEPT_BY_AZURE = 5


def ip_configurations(region: Region, subnet: ResourceId) -> list[Body]:
    return [{"id": one["id"]} for one in _configurations(region) if _subnet_of(one) == subnet.key]


def usages(region: Region, network: ResourceId) -> list[Body]:
    taken: dict[str, int] = {}
    for one in _configurations(region):
        taken[_subnet_of(one)] = taken.get(_subnet_of(one), 0) + 1
    rows = []
    for subnet in region.need(network)["body"]["properties"]["subnets"]:
        told = subnet["properties"]
        ranges = told.get("addressPrefixes") or [told["addressPrefix"]]
        room = sum(ipaddress.ip_network(one).num_addresses - _KEPT_BY_AZURE for one in ranges)
        rows.append(
            {
                "currentValue": taken.get(subnet["id"].lower(), 0),
                "id": subnet["id"],
                "limit": room,
                "name": {"localizedValue": "Subnet size and usage", "value": "SubnetSpace"},
                "unit": "Count",
            }
        )
    return rows


def _configurations(region: Region) -> Iterator[Body]:
    """Of scale sets' machines and of single interfaces."""
    for rid, _ in region.of_type("Microsoft.Compute/virtualMachineScaleSets"):
        for card in instances.interfaces(region, rid):
            yield from card["properties"]["ipConfigurations"]
    for rid, record in region.of_type("Microsoft.Network/networkInterfaces"):
        for one in record["body"]["properties"].get("ipConfigurations") or []:
            yield {"id": f"{rid}/ipConfigurations/{one['name']}", **one}


def _subnet_of(configuration: Body) -> str:
    return str(((configuration.get("properties") or {}).get("subnet") or {}).get("id", "")).lower()
