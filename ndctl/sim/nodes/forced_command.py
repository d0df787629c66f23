"""The same nodes behind a real OpenSSH: a ForceCommand that takes the node from the address connected to.

    with forced_command.served(world, folder / "node-shell") as command:
        ... sshd -o ForceCommand=<command> -o ListenAddress=0.0.0.0 ...

sshd must accept the keys itself (AuthorizedKeysFile) and have one host key for all nodes.
"""

from __future__ import annotations

import asyncio
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ndctl.sim.nodes.service import ToolService
from ndctl.sim.world import World

# Field 3 of SSH_CONNECTION is the server's address. The script sets what NodeTrees.environment sets.
_SCRIPT = """#!/bin/sh
set -f
set -- $SSH_CONNECTION
node=@NODES@/$3
[ -d "$node/home" ] || { echo "no node at $3" >&2; exit 255; }
cd "$node/home" || exit 255
if [ -n "$SSH_ORIGINAL_COMMAND" ]; then
    set -- -c "$SSH_ORIGINAL_COMMAND"
    address=${node##*/}
else
    address=$3
    set -- -s
fi
exec env -i PATH=@BIN@:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$node/home" USER="$USER" \\
    LOGNAME="$USER" SHELL=/bin/sh LANG=C.UTF-8 TMPDIR="$node/tmp" SSH_CONNECTION="$SSH_CONNECTION" \\
    NDCTL_SYSROOT="$node/root" NDCTL_SIM_NODE="$node" NDCTL_SIM_ADDRESS="$address" NDCTL_SIM_SOCKET=@SOCKET@ \\
    /bin/sh "$@"
"""


def write(world: World, path: Path) -> Path:
    """Write the ForceCommand script and render every node's folder; returns the script's path."""
    trees = world.trees
    refresh(world)
    text = _SCRIPT.replace("@NODES@", shlex.quote(str(trees.folder.resolve())))
    text = text.replace("@BIN@", shlex.quote(str(trees.bin.resolve())))
    path.write_text(text.replace("@SOCKET@", shlex.quote(trees.socket_path)))
    path.chmod(0o755)
    return path


def refresh(world: World) -> None:
    """Bring the nodes' folders up to date after a change of VMs or faults."""
    for vm in world.vms():
        world.trees.prepare(vm)


@contextmanager
def served(world: World, path: Path) -> Iterator[Path]:
    """The script, and the service its tools ask, in a thread of its own, until the block ends."""
    loop = asyncio.new_event_loop()
    service = ToolService(world, world.trees)
    thread = threading.Thread(target=loop.run_forever, name="sim-tools", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(service.start(), loop).result(timeout=10)
        yield write(world, path)
    finally:
        asyncio.run_coroutine_threadsafe(service.stop(), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()
