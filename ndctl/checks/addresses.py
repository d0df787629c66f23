"""Which node an address belongs to: the one SSH used, and those the node itself says it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ndctl.checks import commands
from ndctl.checks.base import RackView
from ndctl.model.places import Node
from ndctl.parse import key_values


def own_addresses(view: RackView) -> dict[str, Node]:
    """Address -> node. An address that two nodes claim (a container bridge) belongs to neither."""
    found: dict[str, Node] = {}
    twice: set[str] = set()
    for node, answer in view.answers.items():
        result = answer.results.get(commands.IDENTITY.id)
        said = key_values.parse(result.stdout).get("addresses", "").split() if result else []
        for address in said:
            if address in found and found[address] != node:
                twice.add(address)
            found[address] = node
    for address in twice:
        del found[address]
    return {**found, **{node.address: node for node in view.answers}}


def known_by(listed: Iterable[str], by_address: Mapping[str, Node]) -> set[Node]:
    """The nodes that a list of addresses names."""
    return {by_address[address] for address in listed if address in by_address}
