"""Nodes that are named one by one, since something is done to each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Cluster, Node


def named_nodes(cluster: Cluster, names: Sequence[str]) -> list[Node]:
    """The nodes of these names, each once, in the order given. Raises NdctlError (exit 2) for one that is not there."""
    there = {node.name: node for node in cluster.nodes}
    for name in names:
        if name not in there:
            raise no_such_node(cluster, name)
    return [there[name] for name in dict.fromkeys(names)]


def no_such_node(cluster: Cluster, name: str) -> NdctlError:
    near = difflib.get_close_matches(name, [node.name for node in cluster.nodes], 1)
    hint = f"did you mean {near[0]}?" if near else "ndctl nodes INVENTORY lists them"
    return NdctlError("nodes.no-such-node", f"{cluster.name} has no node {name}", hint=hint, exit_code=ExitCode.USAGE)


def part_of(cluster: Cluster, nodes: Iterable[Node]) -> Cluster:
    """The cluster with these nodes only; racks without any of them are left out."""
    names = {node.name for node in nodes}
    racks = (replace(rack, nodes=tuple(node for node in rack.nodes if node.name in names)) for rack in cluster.racks)
    return Cluster(cluster.name, tuple(rack for rack in racks if rack.nodes))
