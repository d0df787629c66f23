"""Slurm's block topology of a cluster: a block is an NVLink domain, as the nodes themselves named it.

Forms: topology.conf and topology.yaml of topology/block (slurm.schedmd.com, topology.conf(5) and topology.yaml(5), read
2026-12): every block has at least as many nodes as the first block size. Nodes that named no domain are listed in a
comment and put into no block: a wrong block is worse than a missing one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ndctl.model.places import Cluster
from ndctl.report.fold import natural, node_set


@dataclass(frozen=True, slots=True)
class Domain:
    """What a node's GPUs named in a recorded run: `fabric` is the ClusterUUID, `clique` the CliqueId."""

    fabric: str
    clique: str
    run: str


@dataclass(frozen=True, slots=True)
class Block:
    name: str
    domain: Domain
    nodes: tuple[str, ...]
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """unknown: node -> why no domain of it is known."""

    blocks: tuple[Block, ...]
    unknown: Mapping[str, str]

    @property
    def base_size(self) -> int:
        return min((len(one.nodes) for one in self.blocks), default=0)


def topology(cluster: Cluster, domains: Mapping[str, Domain | str]) -> Topology:
    """domains: node name -> its domain, or why none is known."""
    members: dict[tuple[str, str], list[str]] = {}
    unknown: dict[str, str] = {}
    rack_of: dict[str, str] = {}
    told: dict[str, Domain] = {}
    for node in cluster.nodes:
        rack_of[node.name] = node.rack
        domain = domains.get(node.name, "no recorded run asked it")
        if isinstance(domain, str):
            unknown[node.name] = domain
        else:
            told[node.name] = domain
            members.setdefault((domain.fabric, domain.clique), []).append(node.name)
    blocks: list[Block] = []
    for nodes in sorted(members.values(), key=lambda names: natural(min(names, key=natural))):
        name = _name(Counter(rack_of[node] for node in nodes), {one.name for one in blocks})
        runs = tuple(sorted({told[node].run for node in nodes}))
        blocks.append(Block(name, told[nodes[0]], tuple(sorted(nodes, key=natural)), runs))
    return Topology(tuple(blocks), unknown)


def topology_conf(found: Topology, origin: str) -> str:
    """topology.conf, for `TopologyPlugin=topology/block`."""
    lines = _comments(found, origin)
    for block in found.blocks:
        lines += [_source(block), f"BlockName={block.name} Nodes={_hosts(block.nodes)}"]
    if found.blocks:
        lines.append(f"BlockSizes={found.base_size}")
    return "".join(f"{line}\n" for line in lines)


def topology_yaml(found: Topology, name: str, origin: str) -> str:
    """topology.yaml, which Slurm reads instead of topology.conf where it exists."""
    lines = _comments(found, origin)
    if found.blocks:
        lines += [f"- topology: {name}", "  cluster_default: true", "  block:"]
        lines += ["    block_sizes:", f"      - {found.base_size}", "    blocks:"]
    for block in found.blocks:
        lines += [f"    {_source(block)}", f"    - block: {block.name}", f"      nodes: {_hosts(block.nodes)}"]
    return "".join(f"{line}\n" for line in lines)


def _name(racks: Counter[str], taken: set[str]) -> str:
    """The rack most of its nodes are in; a second block there, which a sound rack has not, gets a letter."""
    rack = min(racks, key=lambda one: (-racks[one], natural(one)))
    others = (f"{rack}-{number}" for number in range(2, 10_000))
    return rack if rack not in taken else next(one for one in others if one not in taken)


def _comments(found: Topology, origin: str) -> list[str]:
    lines = [f"# {origin}", "# Slurm's NodeName is the name ndctl gives, with NodeAddr= its address."]
    reasons: dict[str, list[str]] = {}
    for node, why in found.unknown.items():
        reasons.setdefault(why, []).append(node)
    lines += [f"# in no block, {why}: {_hosts(nodes)}" for why, nodes in reasons.items()]
    if not found.blocks:
        lines.append("# no node named its NVLink domain, so there is no block to write")
    return lines


def _source(block: Block) -> str:
    return f"# ClusterUUID {block.domain.fabric}, CliqueId {block.domain.clique}: run {', '.join(block.runs)}"


def _hosts(nodes: Sequence[str]) -> str:
    """Slurm's hostlist notation, folded a rack at a time: rack01-n[01-18],rack02-n03."""
    by_rack: dict[str, list[str]] = {}
    for node in sorted(nodes, key=natural):
        by_rack.setdefault(node.rpartition("-")[0], []).append(node)
    return ",".join(node_set(group) for group in by_rack.values())
