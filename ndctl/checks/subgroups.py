"""What the control plane says of where a rack's nodes stand, beside what the nodes say themselves.

Three things on the nodes follow the NVLink rack: the GPUs' (ClusterUUID, CliqueId), the IMEX node list, and the
InfiniBand partition key. Each is one `Claim` for each node, and is held against the interconnect subgroup alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.checks import commands
from ndctl.checks.addresses import own_addresses
from ndctl.checks.base import RackView
from ndctl.checks.catalogue.infiniband_counters import is_ours
from ndctl.checks.catalogue.nvlink_clique import clique_of
from ndctl.checks.gpus import gpus_of
from ndctl.checks.read_once import ports_of
from ndctl.model.answers import NodeAnswer
from ndctl.model.places import Node
from ndctl.profiles.schema import Profile

_DEFAULT_KEY = 0x7FFF


@dataclass(frozen=True, slots=True)
class Placement:
    """subgroups: node -> what the control plane says, of nodes it says anything of.

    cliques:    node -> "ClusterUUID/CliqueId" where all its GPUs name one
    partitions: node -> its partition keys without the default, where all its rails have the same
    peers:      node -> the nodes of this rack that its IMEX list names
    """

    subgroups: Mapping[Node, str]
    cliques: Mapping[Node, str] = field(default_factory=dict)
    partitions: Mapping[Node, str] = field(default_factory=dict)
    peers: Mapping[Node, frozenset[Node]] = field(default_factory=dict)


def placement_of(view: RackView, profile: Profile) -> Placement:
    """Nodes whose answer does not tell a thing are left out of it."""
    by_address = own_addresses(view)
    cliques: dict[Node, str] = {}
    partitions: dict[Node, str] = {}
    peers: dict[Node, frozenset[Node]] = {}
    for node, answer in view.answers.items():
        clique, partition, listed = _clique(answer), _partition(answer, profile), _listed(answer)
        if clique:
            cliques[node] = clique
        if partition:
            partitions[node] = partition
        named = frozenset(by_address[entry] for entry in listed if entry in by_address)
        if named:
            peers[node] = named
    told = {node: node.subgroup.lower() for node in view.answers if node.subgroup}
    return Placement(told, cliques, partitions, peers)


def _clique(answer: NodeAnswer) -> str:
    facts = gpus_of(answer)
    names = {clique_of(gpu) for gpu in facts.gpus} if facts else set()
    only = names.pop() if len(names) == 1 else None
    return "/".join(only) if only else ""


def _partition(answer: NodeAnswer, profile: Profile) -> str:
    result = answer.results.get(commands.IB_SYSFS.id)
    ports = ports_of(result.stdout).ports if result is not None else ()
    keys = {
        frozenset(key & _DEFAULT_KEY for key in port.pkeys) - {0, _DEFAULT_KEY}
        for port in ports
        if is_ours(port.device, profile) and port.pkeys
    }
    only = keys.pop() if len(keys) == 1 else frozenset()
    return ", ".join(f"0x{key | 0x8000:04x}" for key in sorted(only))


def _listed(answer: NodeAnswer) -> list[str]:
    result = answer.results.get(commands.IMEX_NODE_LIST.id)
    if result is None or result.exit_code != 0:
        return []
    return [line for row in result.stdout.splitlines() if (line := row.partition("#")[0].strip().lower())]
