"""A cluster's nodes in the words of other programs: mpirun's hostfile, an Ansible inventory, an ssh_config.

Pure: nodes and the way to them in, text out. Nodes without an address are named in a comment, never written as hosts.
Host keys are verified in all of them. Ansible gets a ProxyCommand and not a ProxyJump, because ssh does not hand the
options of its command line on to the jump host (ssh_config(5), ProxyJump): the jump host's key would be looked up in
the user's own known_hosts, where the cluster's is not.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ndctl.model.places import Cluster, Node, split_node_name

_ANSIBLE_OWN = ("all", "ungrouped")


@dataclass(frozen=True, slots=True)
class JumpHost:
    """One jump host, resolved: nothing of it is left to a user's ssh_config."""

    host: str
    user: str
    port: int
    identity_files: tuple[Path, ...] = ()
    known_hosts: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeWay:
    """How one node is reached, resolved. chain: the place of its chain in `Reach.jumps`, None: directly."""

    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    known_hosts: tuple[Path, ...] = ()
    chain: int | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """How the nodes are reached. jumps: ways that lead to them side by side, each a chain of hops, first hop first;
    nodes: name -> the way of a node that goes its own."""

    user: str
    identity_files: tuple[Path, ...] = ()
    known_hosts: tuple[Path, ...] = ()
    jumps: tuple[tuple[JumpHost, ...], ...] = ()
    nodes: Mapping[str, NodeWay] = field(default_factory=dict)

    def way(self, node: Node, index: int) -> NodeWay:
        """Of the node at this place in the list: nodes are spread over the chains."""
        chain = index % len(self.jumps) if self.jumps else None
        shared = NodeWay(node.address, node.port, self.user, self.identity_files, self.known_hosts, chain)
        return self.nodes.get(node.name, shared)

    def hops(self, way: NodeWay) -> tuple[JumpHost, ...]:
        return () if way.chain is None else self.jumps[way.chain]


def hostfile(cluster: Cluster, slots: int) -> str:
    """mpirun's hostfile, one address a line in the order of names, with as many slots as a node has GPUs."""
    lines = [f"{node.address} slots={slots}" for node in cluster.nodes if node.address]
    return _text(lines)


def ssh_config(cluster: Cluster, reach: Reach, origin: str) -> str:
    """For `Include` in ~/.ssh/config or `ssh -F`. Each node answers to rack07-n03 and to <cluster>-rack07-n03.

    origin: what made it, for the first line
    """
    lines = [f"# {origin}", *_missing(cluster)]
    for at, chain in enumerate(reach.jumps, 1):
        for hop, jump in enumerate(chain, 1):
            before = _jump_alias(cluster, at, hop - 1) if hop > 1 else ""
            lines += ["", f"Host {_jump_alias(cluster, at, hop)}"]
            lines += _host(jump.host, jump.user, jump.port, jump.identity_files, jump.known_hosts, before)
    for index, node in enumerate(_reachable(cluster)):
        way = reach.way(node, index)
        via = "" if way.chain is None else _jump_alias(cluster, way.chain + 1, len(reach.hops(way)))
        lines += ["", f"Host {node.name} {cluster.name}-{node.name}"]
        lines += _host(way.host, way.user, way.port, way.identity_files, way.known_hosts, via)
    return _text(lines)


def ansible_inventory(cluster: Cluster, reach: Reach, origin: str) -> str:
    """A YAML inventory for `ansible-inventory -i FILE --list`: a group for the cluster, in it one for each rack."""
    import yaml

    racks: dict[str, Any] = {rack.name: {"hosts": {}} for rack in cluster.racks}
    for index, node in enumerate(_reachable(cluster)):
        racks[node.rack]["hosts"][node.name] = _ansible_vars(cluster, node, reach, index)
    told = {"all": {"children": {_group(cluster): {"children": racks}}}}
    comments = [f"# {origin}", *_missing(cluster)]
    return _text(comments) + str(yaml.safe_dump(told, sort_keys=False, width=1_000_000, allow_unicode=True))


def _ansible_vars(cluster: Cluster, node: Node, reach: Reach, index: int) -> dict[str, Any]:
    place = split_node_name(node.name)
    way = reach.way(node, index)
    told: dict[str, Any] = {
        "ansible_host": way.host,
        "ansible_port": way.port,
        "ansible_user": way.user,
        "ansible_ssh_common_args": shlex.join(_options(way.known_hosts, reach.hops(way))),
        "ndctl_cluster": cluster.name,
        "ndctl_rack": node.rack,
        "ndctl_position": place[1] if place else None,
    }
    if way.identity_files:
        told["ansible_ssh_private_key_file"] = _no_token(way.identity_files[0])
    for name in ("instance_id", "vm_id", "subgroup"):
        if value := getattr(node, name):
            told[f"ndctl_{name}"] = value
    return told


def _options(known_hosts: Sequence[Path], chain: Sequence[JumpHost]) -> list[str]:
    options = ["-o", "StrictHostKeyChecking=yes"]
    if known_hosts:
        options += ["-o", f"UserKnownHostsFile={_paths(known_hosts)}"]
    if chain:
        options += ["-o", f"ProxyCommand={_proxy_command(chain)}"]
    return options


def _proxy_command(chain: Sequence[JumpHost]) -> str:
    """ssh that forwards to %h:%p through the last hop, reached through the ones before it."""
    *before, last = chain
    words = ["ssh", *_options(last.known_hosts, before), "-l", last.user, "-p", str(last.port)]
    for file in last.identity_files:
        words += ["-o", f"IdentityFile={_paths([file])}"]  # not -i, which looks for the file before it reads %%
    # What stands in a ProxyCommand has its % tokens replaced once more, so those of the words are doubled.
    return f"{shlex.join(words).replace('%', '%%')} -W {shlex.quote('[%h]:%p')} {shlex.quote(last.host)}"


def _host(
    address: str, user: str, port: int, identity_files: Sequence[Path], known_hosts: Sequence[Path], via: str
) -> Iterator[str]:
    yield f"    HostName {address}"
    yield f"    User {user}"
    yield f"    Port {port}"
    for file in identity_files:
        yield f"    IdentityFile {_paths([file])}"
    yield "    StrictHostKeyChecking yes"
    if known_hosts:
        yield f"    UserKnownHostsFile {_paths(known_hosts)}"
    yield f"    ProxyJump {via or 'none'}"


def _paths(files: Sequence[Path]) -> str:
    """As ssh_config reads them: quoted, with % for % tokens doubled."""
    quoted = (_no_token(file).replace("\\", "\\\\").replace('"', '\\"') for file in files)
    return " ".join(f'"{one}"' if any(char in one for char in ' "\\#') else one for one in quoted)


def _no_token(file: Path) -> str:
    """ssh replaces %h and the like in names of files, wherever they are given."""
    return str(file).replace("%", "%%")


def _jump_alias(cluster: Cluster, at: int, hop: int) -> str:
    return f"{cluster.name}-jump-{at}" + (f"-{hop}" if hop > 1 else "")


def _group(cluster: Cluster) -> str:
    """Ansible's group names have letters, digits and _ only, and some are its own."""
    name = cluster.name.replace("-", "_")
    taken = name in _ANSIBLE_OWN or name in {rack.name for rack in cluster.racks}
    return f"cluster_{name}" if taken else name


def _reachable(cluster: Cluster) -> list[Node]:
    return [node for node in cluster.nodes if node.address]


def _missing(cluster: Cluster) -> list[str]:
    lines = []
    for rack in cluster.racks:
        silent = [node.name for node in rack.nodes if not node.address]
        if silent:
            lines.append(f"# left out, no address: {', '.join(silent)}")
        if len(rack.nodes) < rack.expected_nodes:
            lines.append(f"# {rack.name} has {len(rack.nodes)} of {rack.expected_nodes} nodes")
    return lines


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
