"""The nodes' subnet: room for every VM that does not stand yet."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.core.rest import HttpRequest

from ndctl.azure.preflight.base import Ask, Probe, count
from ndctl.model.preflight import PreflightLine
from ndctl.render import names
from ndctl.render.addresses import AZURE_RESERVED, address_plan

NETWORK_API = "2025-07-01"


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    network = ask.loaded.inventory.network
    assert network is not None  # an inventory on Azure has one
    if network.subnet is not None:
        yield _room(ask, probe, network.subnet, given=True)
        return
    clients = ask.clients
    own = names.resource_id(
        clients.subscription,
        clients.resource_group,
        "Microsoft.Network/virtualNetworks/subnets",
        names.virtual_network(ask.cluster),
        names.RACK_SUBNET,
    )
    if ask.group().exists and any(own.casefold().startswith(f"{one.id.casefold()}/") for one in ask.group().ours):
        yield _room(ask, probe, own, given=False)
        return
    nodes = ask.racks * ask.loaded.vms_per_rack
    planned = address_plan(str(network.create), nodes, ask.loaded.where("network.create"))
    room = ipaddress.ip_network(planned.racks).num_addresses - AZURE_RESERVED
    message = f"{planned.racks} will be made and has room for {room:,}, {count(nodes, 'VM')} are wanted"
    yield probe.proved(message, source="the inventory", facts={"room": room, "needed": nodes})


def _room(ask: Ask, probe: Probe, subnet: str, *, given: bool) -> PreflightLine:
    needed = sum(ask.standing().missing(ask.racks, ask.loaded.vms_per_rack).values())
    if given and ask.creates_jump and not ask.jump_stands():
        needed += 1  # the jump VM stands in the given subnet too
    network_id = subnet.rpartition("/subnets/")[0]
    try:
        network = _get(ask, network_id)
        used, limit = _usage(ask, network_id, subnet)
    except ResourceNotFoundError:
        return probe.refused(f"there is no {subnet}", "az network vnet subnet list   shows the subnets that are there")
    facts: dict[str, Any] = {"used": used, "limit": limit, "needed": needed}
    name = subnet.rpartition("/")[2]
    place = str(network.get("location", "")).replace(" ", "").casefold()
    if given and place and place != ask.region:
        return probe.refused(
            f"{name} is in {place}, and the racks are to be in {ask.region}",
            f"name a subnet of {ask.region} in {ask.inventory}",
            facts=facts,
        )
    free = limit - used
    if needed > free:
        return probe.refused(
            f"{name} has {free:,} free addresses of {limit:,}, {needed:,} more are needed",
            "give a larger subnet, or free addresses of it",
            facts=facts,
        )
    return probe.proved(f"{name} has {free:,} free addresses of {limit:,}, {needed:,} more are needed", facts=facts)


def _usage(ask: Ask, network_id: str, subnet: str) -> tuple[int, int]:
    """(used, limit) from the network's usages, else counted from the subnet itself. Raises AzureError."""
    try:
        rows = _get(ask, f"{network_id}/usages").get("value") or []
    except ResourceNotFoundError:
        raise
    except HttpResponseError:
        rows = []
    for row in rows:
        if str(row.get("id", "")).casefold() == subnet.casefold() and row.get("limit") is not None:
            return int(row.get("currentValue") or 0), int(row["limit"])
    told = _get(ask, subnet)["properties"]
    ranges = told.get("addressPrefixes") or [told["addressPrefix"]]
    room = sum(ipaddress.ip_network(one).num_addresses - AZURE_RESERVED for one in ranges if ":" not in one)
    return len(told.get("ipConfigurations") or ()), room


def _get(ask: Ask, resource: str) -> dict[str, Any]:
    """A given subnet may be of another subscription, which the network client is not for."""
    response = ask.clients.resources.send_request(HttpRequest("GET", f"{resource}?api-version={NETWORK_API}"))
    if response.status_code == 404:
        raise ResourceNotFoundError(response=response)
    response.raise_for_status()
    found: dict[str, Any] = response.json()
    return found


PROBE = Probe("subnet", "free addresses", "the virtual network's usages", _ask)
