"""Which racks and nodes a command means: `--rack 1,3-5` and `--nodes 'rack01-n[01-18]'`."""

from __future__ import annotations

import re
from dataclasses import replace

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Cluster, Rack

MOST_NODES = 200_000
_PART = re.compile(r"^(\d+)(?:-(\d+))?$")


def parse_numbers(text: str) -> frozenset[int]:
    """ "1,3-5" -> {1, 3, 4, 5}. Raises NdctlError exit 2."""
    numbers: set[int] = set()
    for part in text.replace(" ", "").split(","):
        match = _PART.match(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first > 10_000:
            raise NdctlError(
                "select.racks",
                f"{part!r} is no rack number or range",
                hint="e.g. --rack 1,3-5",
                exit_code=ExitCode.USAGE,
            )
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def parse_nodes(text: str) -> frozenset[str]:
    """A ClusterShell node set -> node names. Raises NdctlError exit 2."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        # Groups would run commands that this host's ClusterShell is configured with.
        chosen = NodeSet(text, resolver=RESOLVER_NOGROUP)
    except (NodeSetException, ValueError) as error:
        raise _no_node_set(text, str(error)) from error
    if not chosen:
        raise _no_node_set(text, "it names no node")
    if len(chosen) > MOST_NODES:
        raise _no_node_set(text, f"{len(chosen)} nodes, more than {MOST_NODES}")
    return frozenset(chosen)


def _no_node_set(text: str, why: str) -> NdctlError:
    return NdctlError(
        "select.nodes",
        f"{text!r} is no node set: {why}",
        hint="e.g. --nodes 'rack01-n[01-18]'",
        exit_code=ExitCode.USAGE,
    )


def select(cluster: Cluster, racks: frozenset[int] | None, nodes: frozenset[str] | None) -> Cluster:
    """The part of `cluster` that was asked for. With a node selection only those nodes are expected of a rack.

    Raises NdctlError exit 2 when a named rack or node does not exist.
    """
    chosen: list[Rack] = [rack for rack in cluster.racks if racks is None or rack.number in racks]
    if racks is not None:
        absent = racks - {rack.number for rack in cluster.racks}
        if absent:
            raise _absent(cluster, "rack", ", ".join(map(str, sorted(absent))))
    if nodes is not None:
        known = {node.name for rack in cluster.racks for node in rack.nodes}
        if nodes - known:
            raise _absent(cluster, "node", ", ".join(sorted(nodes - known)[:5]))
        chosen_nodes = {node.name for rack in chosen for node in rack.nodes}
        if nodes - chosen_nodes:
            outside = ", ".join(sorted(nodes - chosen_nodes)[:5])
            raise NdctlError(
                "select.outside",
                f"{outside}: of no rack that was chosen",
                hint="leave --rack out, or name racks and nodes that go together",
                exit_code=ExitCode.USAGE,
            )
        narrowed = []
        for rack in chosen:
            kept = tuple(node for node in rack.nodes if node.name in nodes)
            if kept:
                narrowed.append(replace(rack, nodes=kept, expected_nodes=len(kept)))
        chosen = narrowed
    return replace(cluster, racks=tuple(chosen))


def _absent(cluster: Cluster, kind: str, names: str) -> NdctlError:
    return NdctlError(
        "select.absent",
        f"{cluster.name} has no {kind} {names}",
        hint="ndctl nodes INVENTORY lists what is there",
        exit_code=ExitCode.USAGE,
    )
