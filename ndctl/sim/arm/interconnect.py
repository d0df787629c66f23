"""Interconnect groups, their subgroups (one per physical rack) and interconnect blocks.

A physical rack is a slot of the region's zone: it holds at most one block or scale set at a time, and its subgroup id
is what an instance's view and nodeAvailability name.
"""

from __future__ import annotations

from typing import Any

from ndctl.sim.arm import ids
from ndctl.sim.arm.catalogue import RACKS_PER_ZONE, SIZES
from ndctl.sim.arm.errors import ArmError, bad_request, invalid_parameter
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.network import NetworkKind, check_zones, stable_guid
from ndctl.sim.arm.planted import allocation_failed, cluster_of, rack_of
from ndctl.sim.arm.quota import more_cores, sku_check
from ndctl.sim.arm.region import Body, Kind, Region, need_references, references
from ndctl.sim.arm.store import Record
from ndctl.sim.arm.work import timestamp

SUBGROUPS = "Microsoft.Network/interconnectGroups/subgroups"


class InterconnectGroup(NetworkKind):
    type = "Microsoft.Network/interconnectGroups"
    in_use = "InUseInterconnectGroupCannotBeDeleted"
    immediate = True

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        profile = (body.get("properties") or {}).get("subgroupProfile") or {}
        size = SIZES.get(str(profile.get("vmSize", "")).lower())
        if not profile.get("vmSize"):
            raise invalid_parameter(
                "subgroupProfile.vmSize", "Required property 'vmSize' of subgroupProfile is missing."
            )
        if size is None:
            raise invalid_parameter("subgroupProfile.vmSize", f"The VM size '{profile['vmSize']}' is not supported.")
        if profile.get("scope") == "VerticalConnect" and not size.rack:
            raise invalid_parameter(
                "subgroupProfile.scope", f"Scope VerticalConnect is not supported for VM size {size.name}."
            )

    def view(self, region: Region, rid: ResourceId, record: Record, expand: str = "") -> Body:
        body = super().view(region, rid, record)
        listed = [{"id": one["id"]} for one in subgroups(region, rid)]
        body["properties"] = {**body["properties"], "subgroups": listed}
        return body


class Subgroup(Kind):
    """Read only: made by allocating a rack."""

    type = SUBGROUPS
    stored = False

    def lookup(self, region: Region, rid: ResourceId) -> Record | None:
        parent = rid.parent
        for one in subgroups(region, parent) if parent and region.find(parent) else ():
            if one["name"].lower() == rid.names[-1].lower():
                return {"id": one["id"], "type": rid.type, "group": rid.group_key, "body": one, "created": ""}
        return None


class InterconnectBlock(Kind):
    type = "Microsoft.Compute/interconnectBlocks"
    steps = 2

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        check_zones(rid, body)
        sku = body.get("sku") or {}
        if not sku.get("name") or not isinstance(sku.get("capacity"), int) or sku["capacity"] < 1:
            raise invalid_parameter("sku", "An interconnect block needs sku.name and a sku.capacity of at least 1.")
        size = sku_check(rid, body, str(sku["name"]))
        if not size.rack:
            raise bad_request(f"VM size {size.name} is not supported by interconnect blocks.")
        if not ((body.get("properties") or {}).get("interconnectGroup") or {}).get("id"):
            raise invalid_parameter("interconnectGroup", "Required property 'interconnectGroup' is missing.")

    def cores(self, region: Region, rid: ResourceId, body: Body) -> dict[str, int]:
        return more_cores(region, rid, body["sku"])

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        need_references(region, rid, body)
        properties = body["properties"]
        group = ids.parse_id(properties["interconnectGroup"]["id"])
        record = region.find(group) if group else None
        if record is None:
            raise invalid_parameter("interconnectGroup.id", "The interconnect group was not found.")
        wanted = record["body"]["properties"]["subgroupProfile"]["vmSize"]
        if wanted.lower() != body["sku"]["name"].lower():
            raise bad_request(f"The group's VM size {wanted} and the block's {body['sku']['name']} differ.")
        if before is not None:
            old = before["body"]
            if old["sku"]["name"].lower() != body["sku"]["name"].lower() or (
                old["properties"]["interconnectGroup"]["id"].lower() != properties["interconnectGroup"]["id"].lower()
            ):
                raise ArmError(
                    409, "PropertyChangeNotAllowed", "Only tags and sku.capacity of an interconnect block can change."
                )
            # What was allocated stays with the block.
            keep = ("interconnectBlockId", "timeCreated", "currentCapacity", "rackSlots")
            properties |= {key: old["properties"][key] for key in keep if key in old["properties"]}
        properties.setdefault("interconnectBlockId", stable_guid(str(rid), timestamp()))
        properties.setdefault("timeCreated", timestamp())
        properties["provisioningTime"] = timestamp()
        return body

    def finish(self, region: Region, rid: ResourceId, record: Record) -> None:
        body = record["body"]
        properties = body["properties"]
        rack, cluster = rack_of(body, rid.name), cluster_of(body, rid.name)
        if properties.get("currentCapacity") == body["sku"]["capacity"]:
            return
        if region.planted.rack_fault("allocation-failure", rack, cluster):
            properties.setdefault("currentCapacity", 0)
            raise allocation_failed("in this zone")
        group = ids.parse_id(properties["interconnectGroup"]["id"])
        group_record = region.find(group) if group else None
        size = int(group_record["body"]["properties"]["subgroupProfile"].get("size") or 18) if group_record else 18
        zone = str((body.get("zones") or ["1"])[0])
        slots = list(properties.get("rackSlots") or [])
        wanted = -(-int(body["sku"]["capacity"]) // size)
        while len(slots) < wanted:
            slots.append(take_slot(region, body["location"], zone, str(rid)))
        properties["rackSlots"] = slots
        properties["currentCapacity"] = int(body["sku"]["capacity"])

    def may_delete(self, region: Region, rid: ResourceId, record: Record) -> None:
        users = region.users_of(str(rid))
        if users:
            raise ArmError(
                409,
                "OperationNotAllowed",
                f"Interconnect block '{rid.name}' cannot be deleted while virtual machines of {users[0]} are "
                "associated with it.",
            )

    def removed(self, region: Region, rid: ResourceId, record: Record) -> None:
        give_slots_back(region, str(rid))

    def view(self, region: Region, rid: ResourceId, record: Record, expand: str = "") -> Body:
        body = super().view(region, rid, record)
        properties = {k: v for k, v in body["properties"].items() if k not in ("currentCapacity", "rackSlots")}
        properties["virtualMachinesAssociated"] = [{"id": one} for one in _associated(region, rid)]
        if expand.lower() == "instanceview":
            state = properties["provisioningState"]
            properties["instanceView"] = {
                "currentCapacity": body["properties"].get("currentCapacity", 0),
                "statuses": [
                    {
                        "code": f"ProvisioningState/{state.lower()}",
                        "level": "Error" if state == "Failed" else "Info",
                        "displayStatus": f"Provisioning {state.lower()}",
                        "time": properties["provisioningTime"],
                    }
                ],
            }
        body["properties"] = properties
        return body


KINDS: tuple[type[Kind], ...] = (InterconnectGroup, Subgroup, InterconnectBlock)


def take_slot(region: Region, location: str, zone: str, holder: str) -> str:
    """The first free physical rack of a zone, held from now on; its key."""
    for number in range(1, RACKS_PER_ZONE + 1):
        key = f"{location}/{zone}/{number:03d}"
        if not region.store.has("slots", key) and region.refusals.in_service(number):
            region.store.put("slots", key, {"holder": holder})
            return key
    raise allocation_failed("in this zone")


def give_slots_back(region: Region, holder: str) -> None:
    for key, record in region.store.scan("slots"):
        if record["holder"].lower() == holder.lower():
            region.store.drop("slots", key)


def subgroup_id(slot: str) -> str:
    """The GUID of a physical rack, as interconnectSubgroupId and internalSubgroupId show it."""
    return stable_guid("rack", slot)


def subgroups(region: Region, group: ResourceId) -> list[Body]:
    """One for each rack that something of this group holds."""
    found = []
    for key, holder, machines in _held(region, group):
        name = "subgroup" + key.replace("/", "-").rpartition("-")[2].lstrip("0")
        properties: dict[str, Any] = {"internalSubgroupId": subgroup_id(key), "provisioningState": "Succeeded"}
        if holder.type == InterconnectBlock.type:
            properties["interconnectBlock"] = {"id": str(holder)}
        properties["virtualMachines"] = [{"id": one} for one in machines]
        found.append({"id": f"{group}/subgroups/{name}", "name": name, "type": SUBGROUPS, "properties": properties})
    return found


def node_availability(region: Region, group: ResourceId) -> Body:
    """What nodeAvailability answers: every physical rack a member of this group could get or has."""
    record = region.need(group)
    size = int(record["body"]["properties"]["subgroupProfile"].get("size") or 18)
    location = record["body"]["location"]
    used = {key: len(machines) for key, _, machines in _held(region, group)}
    entries = []
    for zone in ("1", "2"):
        for number in range(1, RACKS_PER_ZONE + 1):
            key = f"{location}/{zone}/{number:03d}"
            if region.store.has("slots", key) and key not in used:
                continue  # somebody else's
            entries.append(
                {
                    "name": f"zone{zone}-subgroup{number}",
                    "internalSubgroupId": subgroup_id(key),
                    "inServiceNodeCount": size if region.refusals.in_service(number) or key in used else size - 1,
                    "inUseNodeCount": used.get(key, 0),
                    "count": size,
                }
            )
    return {"subgroupsNodeAvailability": entries}


def _held(region: Region, group: ResourceId) -> list[tuple[str, ResourceId, list[str]]]:
    """(slot, its holder, ids of the instances in it) of a group."""
    found = []
    for key, record in region.store.scan("slots"):
        holder = ids.parse_id(record["holder"])
        owner = region.store.peek("resources").get(holder.key) if holder else None
        if holder is None or owner is None or not _names(owner["body"], group):
            continue
        machines = [
            f"{one['vmss']}/virtualMachines/{one['instance_id']}"
            for _, one in region.store.scan("instances")
            if one.get("slot") == key and one["state"] == "Succeeded"
        ]
        found.append((key, holder, machines))
    return found


def _names(body: Body, group: ResourceId) -> bool:
    return group.key in set(references(body))


def _associated(region: Region, block: ResourceId) -> list[str]:
    return [
        f"{one['vmss']}/virtualMachines/{one['instance_id']}"
        for _, one in region.store.scan("instances")
        if one.get("block", "").lower() == block.key and one["state"] == "Succeeded"
    ]
