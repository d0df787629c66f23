"""Instances of a scale set: allocated, placed in the racks, shown, and taken away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ndctl.sim.arm import addresses, ids
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.planted import allocation_failed, cluster_of, rack_of
from ndctl.sim.arm.quota import block_of
from ndctl.sim.arm.region import Body, Region
from ndctl.sim.arm.store import Record
from ndctl.sim.arm.work import timestamp
from ndctl.sim.healing import heal

MACHINES = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
PER_RACK = 18


def rack_number(body: Body, name: str) -> int:
    """A scale set that names no rack is rack 1."""
    return rack_of(body, name) or 1


def of(region: Region, scale_set: ResourceId) -> Iterator[tuple[str, Record]]:
    """(key, record) of a scale set's instances; records are for reading."""
    yield from region.store.scan("instances", scale_set.key + "#")


def find(region: Region, scale_set: ResourceId, instance_id: str) -> Record:
    record = region.store.get("instances", f"{scale_set.key}#{instance_id}")
    if record is None:
        region.need(scale_set)
        raise ArmError(
            404, "NotFound", f"The entity was not found. Instance '{instance_id}' of '{scale_set.name}' does not exist."
        )
    return record


def save(region: Region, record: Record) -> None:
    region.store.put("instances", f"{record['vmss'].lower()}#{record['instance_id']}", record)


def scale(region: Region, rid: ResourceId, record: Record, slots: Sequence[str]) -> None:
    """Bring the scale set to its capacity. ArmError when fewer machines came than were asked for."""
    body = record["body"]
    rack, cluster = rack_number(body, rid.name), cluster_of(body, rid.name)
    wanted = int(body["sku"]["capacity"])
    have = dict(of(region, rid))
    for key in sorted(have, key=lambda k: int(have[k]["instance_id"]), reverse=True)[: max(0, len(have) - wanted)]:
        remove(region, key)
        del have[key]
    if wanted == 0:
        return
    complete = len(have) >= wanted and all(one["state"] == "Succeeded" for one in have.values())
    if not complete and region.planted.rack_fault("allocation-failure", rack, cluster):
        raise allocation_failed("in this zone")
    half = region.planted.rack_fault("half-allocated", rack, cluster)
    room = int(half["count"]) if half else wanted
    taken = {int(one["position"]) for one in have.values()}
    counted = region.store.get("counters", rid.key) or {"last": -1}
    last = int(counted["last"])
    pending = [dict(one) for one in have.values() if one["state"] != "Succeeded"]
    for position in (n for n in range(1, wanted + 1) if n not in taken):
        last += 1
        pending.append({"vmss": str(rid), "instance_id": str(last), "position": position})
    region.store.put("counters", rid.key, {"last": last})  # instance ids are never used again
    running = sum(1 for one in have.values() if one["state"] == "Succeeded")
    failed = 0
    for one in sorted(pending, key=lambda p: int(p["position"])):
        slot = slots[min((int(one["position"]) - 1) // PER_RACK, len(slots) - 1)] if slots else ""
        one |= {"block": block_of(body), "slot": slot, "created": timestamp(), "power": "running", "error": None}
        if running < room:
            running += 1
            one |= {"state": "Succeeded", "address": _address(region, rid, cluster, rack, int(one["position"]))}
            save(region, one)
            add_to_world(region, rid, record, one)
        else:
            failed += 1
            one |= {"state": "Failed", "address": "", "error": allocation_failed("in this zone").error}
            save(region, one)
    if failed:
        raise allocation_failed(f"in this zone for {failed} of {wanted} instances")


def add_to_world(region: Region, rid: ResourceId, record: Record, one: Record) -> None:
    body = record["body"]
    profile = body["properties"]["virtualMachineProfile"]["osProfile"]
    keys = ((profile.get("linuxConfiguration") or {}).get("ssh") or {}).get("publicKeys") or []
    region.world.add_vm(
        cluster_of(body, rid.name),
        rack_number(body, rid.name),
        int(one["position"]),
        vmss=rid.key,
        instance_id=one["instance_id"],
        address=one["address"],
        admin_user=profile["adminUsername"],
        admin_key="\n".join(key["keyData"] for key in keys),
        tags=body.get("tags") or {},
        vm_size=body["sku"]["name"],
        location=body["location"],
        zone=str((body.get("zones") or ["1"])[0]),
        host_salt=int((region.store.get("hosts", f"{rid.key}#{one['position']}") or {"salt": 0})["salt"]),
    )


def leave_host(region: Region, scale_set: ResourceId, instance_id: str) -> None:
    """An instance is deleted by itself: who comes to its place stands on another host, without its host's faults."""
    try:
        vm = region.world.vm(scale_set.key, instance_id)
    except KeyError:
        return
    heal(region.world, vm, "replace")
    region.store.put("hosts", f"{scale_set.key}#{vm.index}", {"salt": vm.host_salt + 1})


def remove(region: Region, key: str) -> None:
    record = region.store.get("instances", key)
    if record is not None:
        region.world.remove_vm(record["vmss"].lower(), record["instance_id"])
        region.store.drop("instances", key)


def view(region: Region, scale_set: ResourceId, set_record: Record, one: Record, *, expand: bool = False) -> Body:
    """As ARM shows one instance; `expand` adds the instance view."""
    from ndctl.sim.arm.instance_view import instance_view

    body = set_record["body"]
    profile = body["properties"]["virtualMachineProfile"]
    rid = scale_set.child("virtualMachines", one["instance_id"])
    name = f"{scale_set.name}_{one['instance_id']}"
    os_profile = {k: v for k, v in profile["osProfile"].items() if k not in ("customData", "computerNamePrefix")}
    nic = profile["networkProfile"]["networkInterfaceConfigurations"][0]["name"]
    properties: dict[str, Any] = {
        "latestModelApplied": True,
        "modelDefinitionApplied": "VirtualMachineScaleSet",
        "networkProfileConfiguration": {
            "networkInterfaceConfigurations": profile["networkProfile"]["networkInterfaceConfigurations"]
        },
        "hardwareProfile": {"vmSize": body["sku"]["name"]},
        "vmId": vm_id(region, one),
        "storageProfile": profile["storageProfile"],
        "osProfile": {**os_profile, "computerName": computer_name(set_record, one)},
        "diagnosticsProfile": profile.get("diagnosticsProfile") or {},
        "provisioningState": one["state"],
        "timeCreated": one["created"],
        "networkProfile": {"networkInterfaces": [{"id": f"{rid}/networkInterfaces/{nic}"}]},
    }
    if profile.get("interconnectBlockProfile"):
        properties["interconnectBlockProfile"] = profile["interconnectBlockProfile"]
    if expand:
        properties["instanceView"] = instance_view(region, scale_set, set_record, one)
    return {
        "name": name,
        "id": str(rid),
        "type": MACHINES,
        "location": body["location"],
        "tags": body.get("tags") or {},
        "instanceId": one["instance_id"],
        "sku": {"name": body["sku"]["name"], "tier": "Standard"},
        "zones": body.get("zones") or [],
        "properties": properties,
    }


def computer_name(set_record: Record, one: Record) -> str:
    """The prefix and six digits in base 36, as Azure names the machines of a scale set."""
    number, digits = int(one["instance_id"]), ""
    for _ in range(6):
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    prefix = set_record["body"]["properties"]["virtualMachineProfile"]["osProfile"]["computerNamePrefix"]
    return f"{prefix}{digits}"


def node_of(region: Region, one: Record) -> tuple[str, str]:
    """(name, cluster) of the node that an instance is; empty where it has none."""
    try:
        vm = region.world.vm(one["vmss"].lower(), one["instance_id"])
    except KeyError:
        return "", ""
    return vm.hostname, vm.cluster


def vm_id(region: Region, one: Record) -> str:
    from ndctl.sim.arm.network import stable_guid

    try:
        return region.world.vm(one["vmss"].lower(), one["instance_id"]).vm_id
    except KeyError:
        return stable_guid(one["vmss"], one["instance_id"], one["created"])


def interfaces(region: Region, scale_set: ResourceId, only: str = "") -> list[Body]:
    """The network interfaces of a scale set's instances, as the network API lists them. Failed ones have none."""
    set_record = region.need(scale_set)
    configs = set_record["body"]["properties"]["virtualMachineProfile"]["networkProfile"][
        "networkInterfaceConfigurations"
    ]
    found = []
    for _, one in of(region, scale_set):
        if not one["address"] or only not in ("", one["instance_id"]):
            continue
        machine = scale_set.child("virtualMachines", one["instance_id"])
        for index, config in enumerate(configs):
            rid = machine.child("networkInterfaces", config["name"])
            told = config["properties"]
            ip_configs = []
            for number, ip_config in enumerate(told.get("ipConfigurations") or []):
                inner = ip_config.get("properties") or {}
                ip_configs.append(
                    {
                        "name": ip_config["name"],
                        "id": f"{rid}/ipConfigurations/{ip_config['name']}",
                        "properties": {
                            "provisioningState": "Succeeded",
                            "privateIPAddress": one["address"],
                            "privateIPAllocationMethod": "Dynamic",
                            "privateIPAddressVersion": "IPv4",
                            "subnet": inner.get("subnet"),
                            "primary": inner.get("primary", number == 0),
                        },
                    }
                )
            found.append(
                {
                    "name": config["name"],
                    "id": str(rid),
                    "properties": {
                        "provisioningState": "Succeeded",
                        "ipConfigurations": ip_configs,
                        "macAddress": mac_address(one["address"], index),
                        "enableAcceleratedNetworking": told.get("enableAcceleratedNetworking", False),
                        "primary": told.get("primary", index == 0),
                        "virtualMachine": {"id": str(machine)},
                    },
                }
            )
    return found


def mac_address(address: str, index: int) -> str:
    parts = [int(part) for part in address.split(".")]
    return "-".join(f"{byte:02X}" for byte in (0x00, 0x0D, 0x3A + index, *parts[1:]))


def scope(rid: ResourceId, cluster: str) -> str:
    return f"{ids.group_key(rid.subscription, rid.group)}/{cluster}"


def _address(region: Region, rid: ResourceId, cluster: str, rack: int, position: int) -> str:
    return addresses.rack_address(region, scope(rid, cluster), rack, position)
