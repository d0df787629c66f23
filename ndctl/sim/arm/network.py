"""Networks: virtual networks and subnets, security groups, NAT gateways, public addresses and interfaces."""

from __future__ import annotations

import ipaddress
import uuid
from typing import Any

from ndctl.sim.arm import addresses, ids
from ndctl.sim.arm.catalogue import ZONES
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.planted import cluster_of
from ndctl.sim.arm.region import Body, Kind, Region, need_references
from ndctl.sim.arm.store import Record


def stable_guid(*parts: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(parts).lower()))


def check_zones(rid: ResourceId, body: Body) -> None:
    wrong = [zone for zone in body.get("zones") or [] if zone not in ZONES]
    if wrong:
        raise ArmError(
            400,
            "InvalidAvailabilityZone",
            f"The zone(s) '{','.join(wrong)}' for resource '{rid.type}/{rid.name}' is not supported. The supported "
            f"zones for location '{body.get('location', '')}' are '{','.join(ZONES)}'",
        )


def invalid_format(message: str) -> ArmError:
    return ArmError(400, "InvalidRequestFormat", message)


class NetworkKind(Kind):
    """What all types of Microsoft.Network share: etag, resource guid, references that must exist, uses that hold."""

    in_use = "InUseResourceCannotBeDeleted"

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        need_references(region, rid, body)
        body["etag"] = f'W/"{uuid.uuid4()}"'
        body.setdefault("properties", {})["resourceGuid"] = stable_guid(str(rid))
        return body

    def may_delete(self, region: Region, rid: ResourceId, record: Record) -> None:
        users = region.users_of(str(rid))
        if users:
            raise ArmError(
                400,
                self.in_use,
                f"Resource {rid} is in use by {', '.join(str(one) for one in users[:5])} and cannot be deleted.",
            )


class VirtualNetwork(NetworkKind):
    type = "Microsoft.Network/virtualNetworks"
    in_use = "InUseSubnetCannotBeDeleted"

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        properties = body.get("properties") or {}
        prefixes = (properties.get("addressSpace") or {}).get("addressPrefixes") or []
        if not prefixes:
            raise invalid_format(f"Virtual network {rid.name} has no addressPrefixes in its addressSpace.")
        spaces = [_prefix(one) for one in prefixes]
        seen: list[Any] = []
        for subnet in properties.get("subnets") or []:
            network = _prefix((subnet.get("properties") or {}).get("addressPrefix", ""))
            if not any(network.version == space.version and network.subnet_of(space) for space in spaces):
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


class SecurityGroup(NetworkKind):
    type = "Microsoft.Network/networkSecurityGroups"
    in_use = "InUseNetworkSecurityGroupCannotBeDeleted"

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        taken: dict[tuple[str, int], str] = {}
        for rule in (body.get("properties") or {}).get("securityRules") or []:
            name, told = str(rule.get("name", "")), rule.get("properties") or {}
            missing = [key for key in ("priority", "direction", "access", "protocol") if key not in told]
            for kind in ("source", "destination"):
                if not told.get(f"{kind}AddressPrefix") and not told.get(f"{kind}AddressPrefixes"):
                    missing.append(f"{kind}AddressPrefix")
                if not told.get(f"{kind}PortRange") and not told.get(f"{kind}PortRanges"):
                    missing.append(f"{kind}PortRange")
            if missing:
                raise ArmError(
                    400,
                    "SecurityRuleParameterMissing",
                    f"Required security rule parameters are missing for security rule {name}: {', '.join(missing)}.",
                )
            if not 100 <= int(told["priority"]) <= 4096:
                raise ArmError(
                    400, "SecurityRuleInvalidPriority", f"Security rule {name} has priority outside 100 to 4096."
                )
            place = (str(told["direction"]).lower(), int(told["priority"]))
            if place in taken:
                raise ArmError(
                    400,
                    "SecurityRuleConflict",
                    f"Security rule {name} conflicts with rule {taken[place]}. Rules cannot have the same Priority "
                    "and Direction.",
                )
            taken[place] = name

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        body = super().begin(region, rid, body, before)
        body["properties"]["securityRules"] = [
            {
                "name": rule["name"],
                "id": f"{rid}/securityRules/{rule['name']}",
                "type": f"{self.type}/securityRules",
                "properties": {**rule["properties"], "provisioningState": "Succeeded"},
            }
            for rule in body["properties"].get("securityRules") or []
        ]
        return body


class NatGateway(NetworkKind):
    type = "Microsoft.Network/natGateways"
    in_use = "InUseNatGatewayCannotBeDeleted"

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        check_zones(rid, body)
        if not (body.get("sku") or {}).get("name"):
            raise invalid_format(f"NAT gateway {rid.name} needs a sku.")


class PublicAddress(NetworkKind):
    type = "Microsoft.Network/publicIPAddresses"
    in_use = "PublicIPAddressCannotBeDeleted"

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        check_zones(rid, body)
        standard = str((body.get("sku") or {}).get("name", "Basic")).startswith("Standard")
        method = (body.get("properties") or {}).get("publicIPAllocationMethod", "Dynamic")
        if standard and method != "Static":
            raise ArmError(
                400,
                "PublicIPAddressWithStandardSkuMustBeStatic",
                f"Public IP address {rid} with sku Standard must use the Static allocation method.",
            )

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        body = super().begin(region, rid, body, before)
        old = before["body"]["properties"].get("ipAddress") if before else None
        scope = f"{rid.group_key}/{cluster_of(body, rid.name)}"
        body["properties"]["ipAddress"] = old or addresses.free_address(region, scope)
        body["properties"].setdefault("idleTimeoutInMinutes", 4)
        return body

    def removed(self, region: Region, rid: ResourceId, record: Record) -> None:
        addresses.give_back(region, record["body"]["properties"].get("ipAddress", ""))


class Interface(NetworkKind):
    type = "Microsoft.Network/networkInterfaces"
    in_use = "NicInUse"

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        configs = (body.get("properties") or {}).get("ipConfigurations") or []
        if not configs:
            raise invalid_format(f"Network interface {rid.name} must have one or more IP configurations.")

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        body = super().begin(region, rid, body, before)
        old = before["body"]["properties"]["ipConfigurations"] if before else []
        for index, config in enumerate(body["properties"]["ipConfigurations"]):
            told = config.setdefault("properties", {})
            kept = old[index]["properties"].get("privateIPAddress") if index < len(old) else None
            public = ids.parse_id(str((told.get("publicIPAddress") or {}).get("id", "")))
            public_record = region.find(public) if public else None
            # A machine has one loopback address, so its private address is that of its public one.
            address = public_record["body"]["properties"]["ipAddress"] if public_record else kept
            told["privateIPAddress"] = address or addresses.free_address(
                region, f"{rid.group_key}/{cluster_of(body, rid.name)}"
            )
            told["primary"] = told.get("primary", index == 0)
            told.setdefault("privateIPAddressVersion", "IPv4")
            told["provisioningState"] = "Succeeded"
            config["id"] = f"{rid}/ipConfigurations/{config.get('name', 'primary')}"
            config["type"] = f"{self.type}/ipConfigurations"
        return body

    def may_delete(self, region: Region, rid: ResourceId, record: Record) -> None:
        users = region.users_of(str(rid))
        if users:
            raise ArmError(
                400,
                "NicInUse",
                f"Network Interface {rid} is used by existing resource {users[0]}. In order to delete the network "
                "interface, it must be dissociated from the resource.",
            )

    def removed(self, region: Region, rid: ResourceId, record: Record) -> None:
        for config in record["body"]["properties"]["ipConfigurations"]:
            if not (config["properties"].get("publicIPAddress") or {}).get("id"):
                addresses.give_back(region, config["properties"].get("privateIPAddress", ""))

    def view(self, region: Region, rid: ResourceId, record: Record, expand: str = "") -> Body:
        body = super().view(region, rid, record)
        machines = [one for one in region.users_of(str(rid)) if one.type == "Microsoft.Compute/virtualMachines"]
        if machines:
            body["properties"] = {**body["properties"], "virtualMachine": {"id": str(machines[0])}}
        return body


class Identity(Kind):
    type = "Microsoft.ManagedIdentity/userAssignedIdentities"

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        body["properties"] = {
            **(body.get("properties") or {}),
            "tenantId": region.settings.tenant,
            "principalId": stable_guid("principal", str(rid)),
            "clientId": stable_guid("client", str(rid)),
        }
        return body

    def view(self, region: Region, rid: ResourceId, record: Record, expand: str = "") -> Body:
        body = super().view(region, rid, record)
        body["properties"] = {k: v for k, v in body["properties"].items() if k != "provisioningState"}
        return body


KINDS: tuple[type[Kind], ...] = (
    VirtualNetwork, Subnet, SecurityGroup, NatGateway, PublicAddress, Interface, Identity
)  # fmt: skip


def _subnet_view(network: ResourceId, subnet: Body) -> Body:
    rid = network.child("subnets", str(subnet.get("name", "")))
    told = {**(subnet.get("properties") or {}), "provisioningState": "Succeeded"}
    told.setdefault("privateEndpointNetworkPolicies", "Disabled")
    told.setdefault("privateLinkServiceNetworkPolicies", "Enabled")
    return {"name": rid.names[-1], "id": str(rid), "type": Subnet.type, "properties": told}


def _prefix(text: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(str(text))
    except ValueError:
        raise ArmError(
            400, "InvalidAddressPrefixFormat", f"Address prefix '{text}' is not formatted correctly."
        ) from None
