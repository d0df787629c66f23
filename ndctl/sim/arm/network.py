"""Security groups, NAT gateways, public addresses, interfaces, and what all network types share."""

from __future__ import annotations

import uuid

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
    immediate = True

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


KINDS: tuple[type[Kind], ...] = (SecurityGroup, NatGateway, PublicAddress, Interface, Identity)
