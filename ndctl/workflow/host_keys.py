"""The cluster's known_hosts: learned over ARM's authenticated channel, kept per VM, never taken on trust.

A key belongs to a VM, not to an address: when Azure says that another VM stands at a node's place, the key is learned
anew. A key that changes while the VM stays the same is for a person to look at, and only learned anew on request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ndctl.model.places import Cluster, Node
from ndctl.workflow.side_by_side import side_by_side
from ndctl.workflow.state_dir import cluster_dir, write_private

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.inventory.loader import Loaded

LEARNERS = 16
_SCHEMA = "ndctl.host-keys/1"


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """The keys of one VM: ("ssh-ed25519", base64) pairs."""

    vm_id: str
    keys: tuple[tuple[str, str], ...]


def known_hosts_path(loaded: Loaded) -> Path:
    """The file SSH verifies against: `ssh.known_hosts` of the inventory, else one in the state directory.

    For static racks without `ssh.known_hosts` it is the user's own ~/.ssh/known_hosts: ndctl learns nothing there.
    """
    told = loaded.inventory.ssh.known_hosts
    if told is not None:
        return loaded.path_of(told)
    if loaded.inventory.static is not None:
        return Path.home() / ".ssh" / "known_hosts"
    return cluster_dir(loaded.inventory, loaded.path) / "known_hosts"


def learn_host_keys(
    loaded: Loaded, cluster: Cluster, *, relearn: bool = False, clients: AzureClients | None = None
) -> dict[str, str]:
    """Learn the keys of nodes that have none (all of `cluster` with `relearn`) and write known_hosts.

    Returns node name -> why its key could not be learned; empty when all is known. Static racks: nothing to do.
    Raises NdctlError when Azure cannot be asked at all.
    """
    if loaded.inventory.static is not None:
        return {}
    folder = cluster_dir(loaded.inventory, loaded.path)
    kept = _read(folder / "host_keys.json")
    unknown = [node for node in cluster.nodes if node.address and (relearn or not _is_kept(kept, node))]
    problems: dict[str, str] = {}
    if unknown:
        learned, problems = _ask(loaded, unknown, clients)
        kept = {**kept, **learned}
    # A node that now is another VM must not be met with the key of the one before, not even if asking failed.
    for node in cluster.nodes:
        if node.name in kept and node.vm_id and kept[node.name].vm_id != node.vm_id:
            del kept[node.name]
    _write(folder / "host_keys.json", kept)
    _write_known_hosts(known_hosts_path(loaded), cluster, kept)
    return problems


def known_hosts_line(node: Node, kind: str, key: str) -> str:
    """One line of OpenSSH's known_hosts; the port is written where it is not 22."""
    host = node.address if node.port == 22 else f"[{node.address}]:{node.port}"
    return f"{host} {kind} {key}"


def _is_kept(kept: Mapping[str, KeptKeys], node: Node) -> bool:
    return node.name in kept and kept[node.name].vm_id == node.vm_id


def _ask(loaded: Loaded, nodes: list[Node], clients: AzureClients | None) -> tuple[dict[str, KeptKeys], dict[str, str]]:
    from ndctl.azure.clients import connect
    from ndctl.azure.host_keys import learn_host_keys as learn_from
    from ndctl.azure.whatif import split_id

    own = clients or connect(loaded)
    try:
        read = side_by_side(
            nodes,
            lambda node: learn_from(own, split_id(node.resource_id)[1].partition("/")[0], node.instance_id),
            workers=LEARNERS,
            stop=threading.Event(),
            grace_s=0.2,
        )
    finally:
        if clients is None:
            own.close()
    if read.interrupted:
        raise KeyboardInterrupt
    learned: dict[str, KeptKeys] = {}
    problems: dict[str, str] = {}
    for index, node in enumerate(nodes):
        answer = read.results[index]
        if answer.keys:
            learned[node.name] = KeptKeys(node.vm_id, answer.keys)
        else:
            problems[node.name] = answer.problem
    return learned, problems


def _write_known_hosts(path: Path, cluster: Cluster, kept: Mapping[str, KeptKeys]) -> None:
    """Replace the lines of these nodes' addresses; what else is in the file (a jump host's key) stays."""
    lines = [
        known_hosts_line(node, kind, key)
        for node in cluster.nodes
        if node.address and node.name in kept
        for kind, key in kept[node.name].keys
    ]
    mine = {known_hosts_line(node, "", "").split(" ")[0] for node in cluster.nodes if node.address}
    try:
        before = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        before = []
    stay = [line for line in before if line.split(" ")[0] not in mine]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, "".join(f"{line}\n" for line in [*stay, *lines]))


def _read(path: Path) -> dict[str, KeptKeys]:
    """Unreadable is as good as empty: the keys are learned again from Azure."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: KeptKeys(str(one["vm_id"]), tuple((str(kind), str(key)) for kind, key in one["keys"]))
            for name, one in told["nodes"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write(path: Path, kept: Mapping[str, KeptKeys]) -> None:
    told = {name: {"vm_id": one.vm_id, "keys": [list(pair) for pair in one.keys]} for name, one in sorted(kept.items())}
    write_private(path, json.dumps({"schema": _SCHEMA, "nodes": told}, indent=1) + "\n")
