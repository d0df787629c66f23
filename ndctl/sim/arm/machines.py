"""Single virtual machines (jump hosts) and their disks."""

from __future__ import annotations

import uuid

from ndctl.sim.arm import ids
from ndctl.sim.arm.errors import ArmError, invalid_parameter
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.instance_view import agent, statuses
from ndctl.sim.arm.network import check_zones
from ndctl.sim.arm.planted import cluster_of
from ndctl.sim.arm.profile_checks import check_disks, check_image, check_os_profile
from ndctl.sim.arm.quota import sku_check
from ndctl.sim.arm.region import Body, Kind, Region, need_references
from ndctl.sim.arm.scale_sets import without_secrets
from ndctl.sim.arm.store import Record
from ndctl.sim.arm.work import timestamp


class Machine(Kind):
    type = "Microsoft.Compute/virtualMachines"
    steps = 2

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        check_zones(rid, body)
        properties = body.get("properties") or {}
        size_name = (properties.get("hardwareProfile") or {}).get("vmSize")
        if not size_name:
            raise invalid_parameter("hardwareProfile.vmSize", "Required parameter 'vmSize' is missing (null).")
        size = sku_check(rid, body, str(size_name))
        check_os_profile(properties.get("osProfile") or {}, prefix=False)
        storage = properties.get("storageProfile") or {}
        check_image(storage, size, str(body.get("location", "")))
        check_disks(storage, size)
        if not (properties.get("networkProfile") or {}).get("networkInterfaces"):
            raise invalid_parameter("networkProfile", "Virtual machine must have at least one network interface.")

    def cores(self, region: Region, rid: ResourceId, body: Body) -> dict[str, int]:
        if region.find(rid) is not None:
            return {}
        size = sku_check(rid, body, str(body["properties"]["hardwareProfile"]["vmSize"]))
        return {size.family: size.vcpus}

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        need_references(region, rid, body)
        properties = body["properties"]
        old = before["body"]["properties"] if before else {}
        properties["vmId"] = old.get("vmId") or str(uuid.uuid4())
        properties["timeCreated"] = old.get("timeCreated") or timestamp()
        disk = properties["storageProfile"].setdefault("osDisk", {})
        disk.setdefault("name", f"{rid.name}_OsDisk")
        if not (disk.get("diffDiskSettings") or {}).get("option"):
            disk_id = ResourceId(rid.subscription, rid.group, "Microsoft.Compute", ("disks",), (disk["name"],))
            disk["managedDisk"] = {**(disk.get("managedDisk") or {}), "id": str(disk_id)}
        return body

    def finish(self, region: Region, rid: ResourceId, record: Record) -> None:
        body = record["body"]
        properties = body["properties"]
        self._make_disk(region, rid, record)
        region.save(rid, record)
        address = address_of(region, body)
        there = region.world.vm_at(address)
        if there is not None and there.key == (rid.key, "0"):
            return  # a second PUT leaves a machine as it runs
        profile = properties["osProfile"]
        keys = ((profile.get("linuxConfiguration") or {}).get("ssh") or {}).get("publicKeys") or []
        region.world.add_vm(
            cluster_of(body, rid.name),
            0,
            1,
            vmss=rid.key,
            instance_id="0",
            address=address,
            admin_user=profile["adminUsername"],
            admin_key="\n".join(key["keyData"] for key in keys),
            tags=body.get("tags") or {},
            vm_size=properties["hardwareProfile"]["vmSize"],
            name=profile["computerName"],
            location=body["location"],
            zone=str((body.get("zones") or ["1"])[0]),
        )

    def _make_disk(self, region: Region, rid: ResourceId, record: Record) -> None:
        body = record["body"]
        disk = body["properties"]["storageProfile"]["osDisk"]
        disk_id = ids.parse_id((disk.get("managedDisk") or {}).get("id", ""))
        if disk_id is None or region.find(disk_id) is not None:
            return
        made = {
            "name": disk_id.names[-1],
            "id": str(disk_id),
            "type": disk_id.type,
            "location": body["location"],
            "tags": body.get("tags") or {},
            "zones": body.get("zones") or [],
            "sku": {"name": disk["managedDisk"].get("storageAccountType", "Premium_LRS")},
            "managedBy": str(rid),
            "properties": {
                "osType": "Linux",
                "diskSizeGB": int(disk.get("diskSizeGB") or 30),
                "diskState": "Attached",
                "provisioningState": "Succeeded",
                "timeCreated": timestamp(),
            },
        }
        region.save(
            disk_id,
            {"id": str(disk_id), "type": disk_id.type, "group": rid.group_key, "body": made, "sent": made,
             "created": timestamp()},
        )  # fmt: skip

    def removed(self, region: Region, rid: ResourceId, record: Record) -> None:
        region.world.remove_vm(rid.key, "0")
        properties = record["body"]["properties"]
        disk = properties["storageProfile"]["osDisk"]
        disk_id = ids.parse_id((disk.get("managedDisk") or {}).get("id", ""))
        if disk_id is not None:
            if disk.get("deleteOption") == "Delete":
                region.remove(disk_id)
            elif (left := region.find(disk_id)) is not None:
                left["body"]["properties"]["diskState"] = "Unattached"
                left["body"].pop("managedBy", None)
                region.save(disk_id, left)
        for card in properties["networkProfile"]["networkInterfaces"]:
            card_id = ids.parse_id(card["id"])
            if card_id is not None and (card.get("properties") or {}).get("deleteOption") == "Delete":
                region.remove(card_id)

    def view(self, region: Region, rid: ResourceId, record: Record, expand: str = "") -> Body:
        body = without_secrets(super().view(region, rid, record))
        if expand.lower() == "instanceview":
            body["properties"]["instanceView"] = machine_view(rid, record)
        return body


class Disk(Kind):
    type = "Microsoft.Compute/disks"

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        if region.find(rid) is None:
            raise ArmError(400, "OperationNotAllowed", "Disks of this region are made with their virtual machine.")

    def may_delete(self, region: Region, rid: ResourceId, record: Record) -> None:
        if record["body"].get("managedBy"):
            raise ArmError(
                409, "OperationNotAllowed", f"Disk {rid.name} is attached to VM {record['body']['managedBy']}."
            )


KINDS: tuple[type[Kind], ...] = (Machine, Disk)


def machine_view(rid: ResourceId, record: Record) -> Body:
    properties = record["body"]["properties"]
    one = {
        "state": "Failed" if properties["provisioningState"] == "Failed" else "Succeeded",
        "power": record.get("power", "running"),
        "error": None,
        "created": properties["timeCreated"],
    }
    return {
        "computerName": properties["osProfile"]["computerName"],
        "osName": "ubuntu",
        "osVersion": "24.04",
        "hyperVGeneration": "V2",
        "vmAgent": agent(one),
        "statuses": statuses(one),
    }


def address_of(region: Region, body: Body) -> str:
    for card in body["properties"]["networkProfile"]["networkInterfaces"]:
        card_id = ids.parse_id(card["id"])
        record = region.find(card_id) if card_id else None
        if record is not None:
            return str(record["body"]["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"])
    raise ArmError(400, "InvalidResourceReference", "The virtual machine's network interface was not found.")
