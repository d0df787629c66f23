"""How the address space of a new virtual network is shared between racks and jump host."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from ndctl.model.errors import ExitCode, NdctlError, Where

# Azure keeps the first four addresses and the last of every subnet.
AZURE_RESERVED = 5


@dataclass(frozen=True, slots=True)
class AddressPlan:
    space: str
    racks: str
    jump: str


def address_plan(space: str, nodes: int, where: Where) -> AddressPlan:
    """The lower half for racks, the last /28 for the jump host; what lies between is left for the owner's own use.

    Raises NdctlError (exit 2) when `nodes` VMs do not fit.
    """
    network = ipaddress.IPv4Network(space)
    racks = next(network.subnets(prefixlen_diff=1))
    room = racks.num_addresses - AZURE_RESERVED
    if nodes > room:
        raise NdctlError(
            "render.address-space",
            f"network.create {space} has room for {room} nodes (half of it, less {AZURE_RESERVED} that Azure keeps);"
            f" {nodes} are wanted",
            hint="give a larger network, e.g. a /16 for up to 32,763 nodes",
            where=where,
            exit_code=ExitCode.USAGE,
        )
    last = ipaddress.IPv4Network((int(network.broadcast_address) - 15, 28))
    return AddressPlan(space=str(network), racks=str(racks), jump=str(last))
