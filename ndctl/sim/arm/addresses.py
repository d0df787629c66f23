"""Addresses of the region's machines: real loopback addresses, so that SSH reaches them.

127.<octet>.<rack>.<10 + position>: rack 1, position 1 of the first cluster is 127.1.1.11. Machines without a rack
(jump hosts, public addresses) are 127.<octet>.0.<10 + n>. The first cluster has octet 1; each further one six more,
since racks above 250 go on in the next octet.
"""

from __future__ import annotations

from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.region import Region

_FIRST = 10
_OCTETS_PER_CLUSTER = 6
_RACKS_PER_OCTET = 250


def rack_address(region: Region, scope: str, rack: int, position: int) -> str:
    """`scope` tells clusters apart: subscription, group and cluster name."""
    if not 1 <= position <= 254 - _FIRST:
        raise ArmError(409, "AllocationFailed", f"The region has no address for position {position} of a rack.")
    more, within = divmod(rack - 1, _RACKS_PER_OCTET)
    return f"127.{_octet(region, scope) + more}.{within + 1}.{_FIRST + position}"


def free_address(region: Region, scope: str) -> str:
    """For a machine or public address that belongs to no rack."""
    octet = _octet(region, scope)
    taken = {record["address"] for _, record in region.store.scan("addresses")}
    for last in range(_FIRST + 1, 255):
        address = f"127.{octet}.0.{last}"
        if address not in taken:
            region.store.put("addresses", address, {"address": address})
            return address
    raise ArmError(409, "PublicIPCountLimitReached", "Cannot create more than 244 public IP addresses here.")


def give_back(region: Region, address: str) -> None:
    region.store.drop("addresses", address)


def _octet(region: Region, scope: str) -> int:
    slots = region.store.peek("clusters")
    if scope not in slots:
        used = {record["slot"] for record in slots.values()}
        slot = next(number for number in range(len(used) + 1) if number not in used)
        region.store.put("clusters", scope, {"slot": slot})
    octet = region.settings.first_octet + _OCTETS_PER_CLUSTER * int(slots[scope]["slot"])
    if octet + _OCTETS_PER_CLUSTER > 255:
        raise ArmError(409, "AllocationFailed", "The region has no loopback addresses for one more cluster.")
    return octet
