"""The way to a cluster's nodes as other programs take it: resolved, so that it means the same without ndctl."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ndctl.report.host_lists import JumpHost, NodeWay, Reach
from ndctl.workflow.jump_hosts import learn_jump_host
from ndctl.workflow.transport import ssh_settings

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.model.places import Cluster
    from ndctl.ssh.settings import Hop
    from ndctl.ssh.ways import Ways


def reach_of(loaded: Loaded, cluster: Cluster) -> Reach:
    """As the ssh room goes there: the inventory's words first, then the user's ssh_config for nodes and jump hosts,
    jump hosts of jump hosts included.

    The jump VM that ndctl deploys is learned from Azure when it is not known yet. Raises NdctlError: 2 a ProxyJump that
    makes no sense, 3 identity, 4 when there is no jump VM.
    """
    from ndctl.ssh.ways import Ways

    learn_jump_host(loaded)
    settings = ssh_settings(loaded, fanout=1)
    ways = Ways(settings)
    numbers = {chain: index for index, chain in enumerate(dict.fromkeys(settings.jumps))}
    nodes: dict[str, NodeWay] = {}
    for index, node in enumerate(node for node in cluster.nodes if node.address):
        place = ways.to_node(node)
        chains = ways.chains(place)
        chain = numbers.setdefault(chains[index % len(chains)], len(numbers)) if chains else None
        files, known = _absolute(place.identity_files), _absolute(place.known_hosts)
        nodes[node.name] = NodeWay(place.host, place.port, place.user, files, known, chain)
    return Reach(
        user=settings.user,
        identity_files=_absolute(settings.private_keys),
        known_hosts=_absolute(settings.known_hosts),
        jumps=tuple(tuple(_jump(hop, ways) for hop in ways.from_here(chain)) for chain in numbers),
        nodes=nodes,
    )


def _jump(hop: Hop, ways: Ways) -> JumpHost:
    place = ways.to_hop(hop)
    files, known = _absolute(place.identity_files), _absolute(place.known_hosts)
    return JumpHost(host=place.host, user=place.user, port=place.port, identity_files=files, known_hosts=known)


def _absolute(files: Sequence[Path]) -> tuple[Path, ...]:
    """The text is read from other folders than the one ndctl was started in."""
    return tuple(Path(os.path.abspath(file)) for file in files)
