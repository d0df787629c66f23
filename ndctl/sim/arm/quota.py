"""vCPU quota and the offer of sizes by zone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ndctl.sim.arm.catalogue import CORES_LIMIT, FAMILY_LIMIT, SIZES, Size, location_name
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.region import Body, Region


def sku_check(rid: ResourceId, body: Body, size_name: str) -> Size:
    """The size; ArmError when the region does not have it, or not in the zones wanted."""
    size = SIZES.get(size_name.lower())
    location = location_name(str(body.get("location", "")))
    if size is None:
        raise ArmError(
            400,
            "InvalidParameter",
            f"The value {size_name} provided for the VM size is not valid. The valid sizes in the current region are: "
            f"{', '.join(one.name for one in SIZES.values())}.",
            target="sku.name",
        )
    wanted = [str(zone) for zone in body.get("zones") or []]
    if any(zone not in size.zones for zone in wanted):
        raise ArmError(
            409,
            "SkuNotAvailable",
            f"The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: {size.name}' "
            f"is currently not available in location '{location}' zones '{','.join(wanted)}' for subscription "
            f"'{rid.subscription}'. Please try another size or deploy to a different location or different zones. See "
            "https://aka.ms/azureskunotavailable for details.",
        )
    return size


def more_cores(region: Region, rid: ResourceId, sku: Mapping[str, Any]) -> dict[str, int]:
    """vCPUs by family that this capacity asks for beyond what the resource holds.

    A scale set inside a block uses the block's cores, so its own count only where it has none.
    """
    size = SIZES.get(str(sku.get("name", "")).lower())
    if size is None:
        return {}
    before = region.store.peek("resources").get(rid.key)
    held = held_capacity(before) if before else 0
    return {size.family: max(0, int(sku.get("capacity") or 0) - held) * size.vcpus}


def held_capacity(record: Mapping[str, Any]) -> int:
    body = record["body"]
    if "currentCapacity" in body["properties"]:
        return int(body["properties"]["currentCapacity"])
    return int((body.get("sku") or {}).get("capacity") or 0)


def used_cores(region: Region, subscription: str, location: str) -> dict[str, int]:
    """vCPUs in use by family."""
    used: dict[str, int] = {}
    for _, record in region.store.scan("resources"):
        body = record["body"]
        if body.get("location") != location or not record["id"].lower().startswith(f"/subscriptions/{subscription}/"):
            continue
        kind = record["type"].lower()
        if kind == "microsoft.compute/virtualmachines":
            name, count = body["properties"]["hardwareProfile"]["vmSize"], 1
        elif kind == "microsoft.compute/interconnectblocks" or (
            kind == "microsoft.compute/virtualmachinescalesets" and not block_of(body)
        ):
            name, count = body["sku"]["name"], held_capacity(record)
        else:
            continue
        size = SIZES[name.lower()]
        used[size.family] = used.get(size.family, 0) + size.vcpus * count
    return used


def block_of(body: Body) -> str:
    profile = body["properties"].get("virtualMachineProfile") or {}
    block = (profile.get("interconnectBlockProfile") or {}).get("interconnectBlock") or {}
    return str(block.get("id", ""))


def check_quota(region: Region, subscription: str, location: str, wanted: Iterable[Mapping[str, int]]) -> None:
    """ArmError QuotaExceeded when these families together do not fit."""
    asked: dict[str, int] = {}
    for one in wanted:
        for family, cores in one.items():
            asked[family] = asked.get(family, 0) + cores
    used = used_cores(region, subscription, location)
    limit = region.planted.core_limit()
    family_limit = FAMILY_LIMIT if limit is None else limit
    for family, cores in asked.items():
        racks = any(size.family == family and size.rack for size in SIZES.values())
        here = family_limit if racks else FAMILY_LIMIT
        if cores and used.get(family, 0) + cores > here:
            raise _exceeded(f"{family} Cores", location, here, used.get(family, 0), cores)
    total, more = sum(used.values()), sum(asked.values())
    if more and total + more > CORES_LIMIT:
        raise _exceeded("Total Regional Cores", location, CORES_LIMIT, total, more)


def usages(region: Region, subscription: str, location: str) -> list[Body]:
    used = used_cores(region, subscription, location)
    limit = region.planted.core_limit()

    def entry(value: str, label: str, current: int, most: int) -> Body:
        name = {"value": value, "localizedValue": label}
        return {"limit": most, "unit": "Count", "currentValue": current, "name": name}

    rows = [entry("cores", "Total Regional vCPUs", sum(used.values()), CORES_LIMIT)]
    machines = sum(1 for _ in region.of_type("Microsoft.Compute/virtualMachines"))
    rows.append(entry("virtualMachines", "Virtual Machines", machines, 25_000))
    sets = sum(1 for _ in region.of_type("Microsoft.Compute/virtualMachineScaleSets"))
    rows.append(entry("virtualMachineScaleSets", "Virtual Machine Scale Sets", sets, 2_500))
    for family in dict.fromkeys(size.family for size in SIZES.values()):
        racks = any(size.family == family and size.rack for size in SIZES.values())
        most = limit if limit is not None and racks else FAMILY_LIMIT
        # Resource SKUs say standardNDISRGB300V6Family and usages sometimes StandardNDISRGB300V6Family: clients compare
        # without case.
        rows.append(entry(family[0].upper() + family[1:], f"{family} vCPUs", used.get(family, 0), most))
    return rows


def _exceeded(what: str, location: str, limit: int, used: int, more: int) -> ArmError:
    return ArmError(
        409,
        "QuotaExceeded",
        f"Operation could not be completed as it results in exceeding approved {what} quota. Additional details - "
        f"Deployment Model: Resource Manager, Location: {location}, Current Limit: {limit}, Current Usage: {used}, "
        f"Additional Required: {more}, (Minimum) New Limit Required: {used + more}. Setup alerts when quota reaches "
        "threshold. Learn more at https://aka.ms/quotamonitoringalerting.",
    )
