"""Scale sets: a rack's machines, allocated together."""

from __future__ import annotations

import uuid
from typing import Any

from ndctl.sim.arm import ids, instances
from ndctl.sim.arm.catalogue import SIZES
from ndctl.sim.arm.errors import ArmError, bad_request, invalid_parameter
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.interconnect import give_slots_back, take_slot
from ndctl.sim.arm.network import check_zones
from ndctl.sim.arm.profile_checks import check_disks, check_image, check_os_profile, check_scale_set_keys
from ndctl.sim.arm.quota import block_of, more_cores, sku_check
from ndctl.sim.arm.region import Body, Kind, Region, need_references
from ndctl.sim.arm.store import Record
from ndctl.sim.arm.work import timestamp


class ScaleSet(Kind):
    type = "Microsoft.Compute/virtualMachineScaleSets"
    steps = 2

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        check_scale_set_keys(body)
        check_zones(rid, body)
        sku, properties = body.get("sku") or {}, body.get("properties") or {}
        if not sku.get("name") or not isinstance(sku.get("capacity"), int) or sku["capacity"] < 0:
            raise invalid_parameter("sku", "Required parameter 'sku.capacity' or 'sku.name' is missing or wrong.")
        size = sku_check(rid, body, str(sku["name"]))
        if properties.get("orchestrationMode", "Uniform") != "Uniform":
            raise bad_request("This region knows scale sets of orchestrationMode Uniform only.")
        if not (properties.get("upgradePolicy") or {}).get("mode"):
            raise invalid_parameter("upgradePolicy", "Required parameter 'upgradePolicy' is missing (null).")
        if size.rack and properties.get("singlePlacementGroup"):
            raise bad_request("Vertical Connect Feature is not available for this Virtual Machine Scale Set.")
        if properties.get("singlePlacementGroup") and sku["capacity"] > 100:
            raise invalid_parameter("singlePlacementGroup", "A single placement group holds at most 100 VMs.")
        profile = properties.get("virtualMachineProfile") or {}
        check_os_profile(profile.get("osProfile") or {}, prefix=True)
        storage = profile.get("storageProfile") or {}
        check_image(storage, size, str(body.get("location", "")))
        check_disks(storage, size)
        network = profile.get("networkProfile") or {}
        cards = network.get("networkInterfaceConfigurations") or []
        if not cards:
            raise invalid_parameter("networkProfile", "A scale set needs a networkInterfaceConfiguration.")
        if block_of(body) and not (network.get("interconnectGroupProfile") or {}).get("interconnectGroup"):
            raise invalid_parameter(
                "interconnectGroupProfile",
                "A scale set with an interconnect block needs the block's interconnectGroup.",
            )

    def cores(self, region: Region, rid: ResourceId, body: Body) -> dict[str, int]:
        return {} if block_of(body) else more_cores(region, rid, body["sku"])

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        need_references(region, rid, body)
        if block_of(body):
            _check_block(region, rid, body)
        properties = body["properties"]
        properties.setdefault("orchestrationMode", "Uniform")
        properties.setdefault("overprovision", True)
        properties.setdefault("singlePlacementGroup", True)
        old = before["body"]["properties"] if before else {}
        properties["uniqueId"] = old.get("uniqueId") or str(uuid.uuid4())
        properties["timeCreated"] = old.get("timeCreated") or timestamp()
        return body

    def finish(self, region: Region, rid: ResourceId, record: Record) -> None:
        instances.scale(region, rid, record, slots_for(region, rid, record["body"]))

    def removed(self, region: Region, rid: ResourceId, record: Record) -> None:
        for key, _ in instances.of(region, rid):
            instances.remove(region, key)
        region.store.drop("counters", rid.key)
        give_slots_back(region, str(rid))

    def view(self, region: Region, rid: ResourceId, record: Record, expand: str = "") -> Body:
        return without_secrets(super().view(region, rid, record))


def without_secrets(body: Body) -> Body:
    """Azure keeps custom data and passwords to itself."""
    properties = dict(body["properties"])
    profile = properties.get("virtualMachineProfile")
    holder: dict[str, Any] = dict(profile) if profile is not None else properties
    os_profile = holder.get("osProfile") or {}
    holder["osProfile"] = {k: v for k, v in os_profile.items() if k not in ("customData", "adminPassword")}
    if profile is not None:
        properties["virtualMachineProfile"] = holder
    return {**body, "properties": properties}


def _check_block(region: Region, rid: ResourceId, body: Body) -> None:
    block = ids.parse_id(block_of(body))
    record = region.find(block) if block else None
    if block is None or record is None:
        raise invalid_parameter("interconnectBlockProfile", f"The interconnect block '{block_of(body)}' was not found.")
    held = sum(
        1
        for _, one in region.store.scan("instances")
        if one.get("block", "").lower() == block.key and one["vmss"].lower() != rid.key and one["state"] == "Succeeded"
    )
    free = int(record["body"]["properties"].get("currentCapacity", 0)) - held
    if int(body["sku"]["capacity"]) > free:
        raise ArmError(
            409,
            "OverconstrainedAllocationRequest",
            f"Allocation failed. Interconnect block '{block.name}' has {free} of {record['body']['sku']['capacity']} "
            f"machines free and {body['sku']['capacity']} are wanted.",
        )


def slots_for(region: Region, rid: ResourceId, body: Body) -> list[str]:
    """The physical racks a scale set's machines stand in: its block's, or ones of its own."""
    block = ids.parse_id(block_of(body))
    record = region.find(block) if block else None
    if record is not None:
        return list(record["body"]["properties"].get("rackSlots") or [])
    size = SIZES[body["sku"]["name"].lower()]
    if not size.rack:
        return []
    own = [key for key, one in region.store.scan("slots") if one["holder"].lower() == rid.key]
    zone = str((body.get("zones") or ["1"])[0])
    while len(own) * instances.PER_RACK < int(body["sku"]["capacity"]):
        own.append(take_slot(region, body["location"], zone, str(rid)))
    return own
