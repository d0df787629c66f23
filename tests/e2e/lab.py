"""A laboratory of stand-in racks: real SSH on loopback, no Azure; `validate` sees it through a static inventory."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ndctl.sim.nodes.server import serve
from ndctl.sim.world import World

# Each laboratory has addresses of its own, also beside other test processes.
_SECOND = itertools.count(100 + (os.getpid() % 12) * 10)


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("0.0.0.0", 0))
        return int(one.getsockname()[1])


class Lab:
    """`inventory` is the file to validate; `faults` plants faults; `close()` ends every listener."""

    def __init__(self, folder: Path, racks: int = 1, nodes: int = 18) -> None:
        key = Ed25519PrivateKey.generate()
        private = folder / "id_ed25519"
        private.touch(mode=0o600)
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
            )
        )
        public = (
            key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
        )
        self.world = World(folder / "world")
        self.faults = self.world.faults
        self.port = free_port()
        self.inventory = folder / "lab.yaml"
        second = next(_SECOND)
        known, static = [], []
        for rack in range(1, racks + 1):
            addresses = [f"127.{second}.{rack}.{10 + index}" for index in range(1, nodes + 1)]
            for index, address in enumerate(addresses, 1):
                vm = self.world.add_vm(
                    "lab", rack, index, vmss=f"lab-rack{rack:02d}", instance_id=str(index), address=address,
                    admin_user="azureuser", admin_key=public,
                )  # fmt: skip
                known += [f"[{address}]:{self.port} {' '.join(line.split()[:2])}" for line in vm.host_public_keys]
            static.append(f"  - {{rack: {rack}, nodes: [{', '.join(addresses)}]}}")
        (folder / "known_hosts").write_text("\n".join(known) + "\n")
        self.inventory.write_text(
            f"cluster: lab\nprofile: gb300\nssh: {{user: azureuser, port: {self.port}, private_key: id_ed25519, "
            "known_hosts: known_hosts}\nstatic:\n" + "\n".join(static) + "\n"
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lab", daemon=True)
        self._thread.start()
        self._server: Any = asyncio.run_coroutine_threadsafe(serve(self.world, self.port), self._loop).result(60)

    def sync(self) -> None:
        """Let the listeners follow a fault at once (a node that is down, another host key)."""

        async def follow() -> None:
            self._server.sync()

        asyncio.run_coroutine_threadsafe(follow(), self._loop).result(60)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
