"""Which node an address belongs to: the one SSH used, and those the node itself says it has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ndctl.checks import commands
from ndctl.checks.base import RackView
from ndctl.model.answers import NodeAnswer
from ndctl.model.places import Node
from ndctl.parse import key_values


def own_addresses(view: RackView) -> dict[str, Node]:
    """Address -> node, in lower case. An address that two nodes claim (a container bridge, one jump address with a
    port for each node) belongs to neither."""
    found: dict[str, Node] = {}
    twice: set[str] = set()
    for node, answer in view.answers.items():
        for address in (node.address.lower(), *said_addresses(answer)):
            if address and found.setdefault(address, node) != node:
                twice.add(address)
    return {address: node for address, node in found.items() if address not in twice}


def said_addresses(answer: NodeAnswer) -> tuple[str, ...]:
    """What the node itself lists; empty where it was not asked or could not tell."""
    result = answer.results.get(commands.IDENTITY.id)
    said = key_values.parse(result.stdout).get("addresses", "") if result else ""
    return tuple(said.lower().split())


def known_by(listed: Iterable[str], by_address: Mapping[str, Node]) -> set[Node]:
    """The nodes that a list of addresses names."""
    return {by_address[address.lower()] for address in listed if address.lower() in by_address}


def left_out(listed: Collection[str], view: RackView, by_address: Mapping[str, Node]) -> list[Node]:
    """Nodes that the list surely does not name: only those whose own addresses are known from the node itself.

    Empty where no entry can be told to be any node's (names, addresses of another network): who is who is not known.
    """
    known = known_by(listed, by_address)
    if not known:
        return []
    return [node for node, answer in view.answers.items() if node not in known and said_addresses(answer)]


def addressed(view: RackView) -> int:
    """How many of the rack's nodes a list can name: a VM that never came has no address."""
    return sum(bool(node.address) for node in view.answers)
