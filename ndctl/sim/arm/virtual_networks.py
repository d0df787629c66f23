"""Virtual networks and their subnets."""

from __future__ import annotations

import ipaddress
from typing import Any

from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.network import NetworkKind, invalid_format
from ndctl.sim.arm.region import Body, Kind, Region, need_references
from ndctl.sim.arm.store import Record
from ndctl.sim.arm.subnet_use import ip_configurations

AnyNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


class VirtualNetwork(NetworkKind):
    type = "Microsoft.Network/virtualNetworks"
    in_use = "InUseSubnetCannotBeDeleted"

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        properties = body.get("properties") or {}
        prefixes = (properties.get("addressSpace") or {}).get("addressPrefixes") or []
        if not prefixes:
            raise invalid_format(f"Virtual network {rid.name} has no addressPrefixes in its addressSpace.")
        spaces = [_prefix(one) for one in prefixes]
        seen: list[AnyNetwork] = []
        for subnet in properties.get("subnets") or []:
            network = _prefix((subnet.get("properties") or {}).get("addressPrefix", ""))
            if not any(_inside(network, space) for space in spaces):
                raise ArmError(
                    400,
                    "NetcfgInvalidSubnet",
                    f"Subnet '{subnet.get('name')}' is not valid because its IP address range is outside the IP "
                    f"address range of virtual network '{rid.name}'.",
                )
            if any(network.overlaps(other) for other in seen):
                raise ArmError(
                    400, "NetcfgSubnetRangesOverlap", f"Subnet '{subnet.get('name')}' overlaps with another subnet."
                )
            seen.append(network)

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        body = super().begin(region, rid, body, before)
        subnets = body["properties"].get("subnets") or []
        if before is not None:
            kept = {str(one.get("name", "")).lower() for one in subnets}
            for old in before["body"]["properties"].get("subnets") or []:
                if old["name"].lower() not in kept:
                    Subnet.refuse_when_used(region, rid.child("subnets", old["name"]))
        body["properties"]["subnets"] = [_subnet_view(rid, one) for one in subnets]
        body["properties"].setdefault("enableDdosProtection", False)
        return body


class Subnet(Kind):
    """A subnet is kept inside its virtual network; this is how it is put, read and deleted by itself."""

    type = "Microsoft.Network/virtualNetworks/subnets"
    stored = False

    def lookup(self, region: Region, rid: ResourceId) -> Record | None:
        parent = rid.parent
        network = region.find(parent) if parent else None
        for one in network["body"]["properties"]["subnets"] if network else ():
            if one["name"].lower() == rid.names[-1].lower():
                return {"id": str(rid), "type": rid.type, "group": rid.group_key, "body": one, "created": ""}
        return None

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        need_references(region, rid, body)
        parent = rid.parent
        assert parent is not None
        network = region.need(parent)
        subnets = [
            one for one in network["body"]["properties"]["subnets"] if one["name"].lower() != rid.names[1].lower()
        ]
        view = _subnet_view(parent, {**body, "name": rid.names[1]})
        network["body"]["properties"]["subnets"] = [*subnets, view]
        VirtualNetwork().check(region, parent, network["body"])
        region.save(parent, network)
        return view

    def view(self, region: Region, rid: ResourceId, record: Record, expand: str = "") -> Body:
        body = super().view(region, rid, record)
        taken = ip_configurations(region, rid)
        return {**body, "properties": {**body["properties"], **({"ipConfigurations": taken} if taken else {})}}

    def may_delete(self, region: Region, rid: ResourceId, record: Record) -> None:
        self.refuse_when_used(region, rid)

    def removed(self, region: Region, rid: ResourceId, record: Record) -> None:
        parent = rid.parent
        network = region.find(parent) if parent else None
        if parent is not None and network is not None:
            subnets = network["body"]["properties"]["subnets"]
            network["body"]["properties"]["subnets"] = [
                one for one in subnets if one["name"].lower() != rid.names[1].lower()
            ]
            region.save(parent, network)

    @staticmethod
    def refuse_when_used(region: Region, rid: ResourceId) -> None:
        users = region.users_of(str(rid), besides=str(rid.parent))
        if users:
            raise ArmError(
                400,
                "InUseSubnetCannotBeDeleted",
                f"Subnet {rid.names[-1]} is in use by {users[0]} and cannot be deleted. In order to delete the subnet, "
                "delete all the resources within the subnet.",
            )


KINDS: tuple[type[Kind], ...] = (VirtualNetwork, Subnet)


def _subnet_view(network: ResourceId, subnet: Body) -> Body:
    rid = network.child("subnets", str(subnet.get("name", "")))
    told = {**(subnet.get("properties") or {}), "provisioningState": "Succeeded"}
    told.setdefault("privateEndpointNetworkPolicies", "Disabled")
    told.setdefault("privateLinkServiceNetworkPolicies", "Enabled")
    return {"name": rid.names[-1], "id": str(rid), "type": Subnet.type, "properties": told}


def _prefix(text: Any) -> AnyNetwork:
    try:
        return ipaddress.ip_network(str(text))
    except ValueError:
        raise ArmError(
            400, "InvalidAddressPrefixFormat", f"Address prefix '{text}' is not formatted correctly."
        ) from None


def _inside(network: AnyNetwork, space: AnyNetwork) -> bool:
    if isinstance(network, ipaddress.IPv4Network):
        return isinstance(space, ipaddress.IPv4Network) and network.subnet_of(space)
    return isinstance(space, ipaddress.IPv6Network) and network.subnet_of(space)
