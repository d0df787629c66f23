"""Which jump hosts lead to a cluster: those the inventory names, and the one that ndctl deploys.

The deployed one's address and host keys come from Azure, never from the network, and are kept in the cluster's
folder of the state directory; its keys stand in the same known_hosts as the nodes'.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.render.inputs import creates_jump
from ndctl.workflow.host_keys import known_hosts_path
from ndctl.workflow.state_dir import cluster_dir, write_private

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.inventory.loader import Loaded

_SCHEMA = "ndctl.jump/1"
PORT = 22


def jump_chains(loaded: Loaded) -> list[str]:
    """`[user@]host[:port]` of each jump host, for `ssh.settings`; "created" is replaced by what was learned.

    Raises NdctlError exit 4 when the deployed one has not been learned.
    """
    inventory = loaded.inventory
    if inventory.static is not None or not creates_jump(inventory):
        return list(inventory.ssh.jump)
    told = _read(_file(loaded))
    if not told.get("address"):
        raise NdctlError(
            "ssh.no-jump",
            f"{inventory.cluster}: the jump VM has no address yet, so the racks cannot be reached",
            hint=f"ndctl deploy {loaded.path}",
            exit_code=ExitCode.PREFLIGHT,
        )
    port = int(told.get("port", PORT))
    created = f"{inventory.ssh.user}@{told['address']}:{port}"
    named = list(inventory.ssh.jump) or ["created"]
    return [created if name == "created" else name for name in named]


def learn_jump_host(loaded: Loaded, clients: AzureClients | None = None, *, relearn: bool = False) -> None:
    """Learn the deployed jump VM's address and host keys; nothing to do where there is none to deploy."""
    inventory = loaded.inventory
    if inventory.static is not None or not creates_jump(inventory):
        return
    from ndctl.azure.clients import connect
    from ndctl.azure.jump_vm import find_jump_vm
    from ndctl.render import names

    told = {} if relearn else _read(_file(loaded))
    own = clients or connect(loaded)
    try:
        with own.telling(f"reading the jump VM of {inventory.cluster}"):
            found = find_jump_vm(
                own,
                names.jump_vm(inventory.cluster),
                names.jump_public_ip(inventory.cluster),
                known_vm_id=str(told.get("vm_id", "")) if told.get("keys") else "",
            )
    finally:
        if clients is None:
            own.close()
    if found is None or not found.address:
        _file(loaded).unlink(missing_ok=True)
        return
    same = bool(found.vm_id) and found.vm_id == told.get("vm_id")
    keys = [list(pair) for pair in found.keys] or (told.get("keys", []) if same else [])
    if not keys:
        raise NdctlError(
            "ssh.jump-key",
            f"{inventory.cluster}: the jump VM did not tell its SSH host keys, so it cannot be verified",
            hint="is it running, with its VM agent? then run the same command again",
            exit_code=ExitCode.INCOMPLETE,
        )
    # ssh.port holds for every VM of the cluster, the jump VM included.
    port = inventory.ssh.port
    kept = {"schema": _SCHEMA, "vm_id": found.vm_id, "address": found.address, "port": port, "keys": keys}
    write_private(_file(loaded), json.dumps(kept, indent=1) + "\n")
    _trust(known_hosts_path(loaded), found.address, port, keys)


def _trust(path: Path, address: str, port: int, keys: list[list[str]]) -> None:
    """The jump VM's lines in known_hosts; other hosts' lines stay."""
    host = address if port == 22 else f"[{address}]:{port}"
    try:
        before = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        before = []
    stay = [line for line in before if line.split(" ")[0] != host]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, "".join(f"{line}\n" for line in [*stay, *(f"{host} {kind} {key}" for kind, key in keys)]))


def _file(loaded: Loaded) -> Path:
    return cluster_dir(loaded.inventory, loaded.path) / "jump.json"


def _read(path: Path) -> dict[str, Any]:
    """Unreadable is as good as empty: it is learned again from Azure."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return told if isinstance(told, dict) and told.get("schema") == _SCHEMA else {}
    except (OSError, ValueError):
        return {}
