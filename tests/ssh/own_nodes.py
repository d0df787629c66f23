"""Nodes that share nothing: an sshd each, with its own host key, home and authorized_keys; one client key for all."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ndctl.model.places import Node, node_name, rack_name
from ndctl.ssh.settings import SshSettings
from tests.ssh import sshd as openssh

TMPFS = Path("/dev/shm")


@dataclass
class OwnNodes:
    """`servers[i]` serves `nodes[i]`, whose home is `homes[i]`."""

    folder: Path
    servers: list[openssh.Sshd]
    nodes: list[Node]
    homes: list[Path]
    known_hosts: Path

    def settings(self, **changes: object) -> SshSettings:
        return self.servers[0].settings(known_hosts=(self.known_hosts,), **changes)

    def keys(self, at: int) -> str:
        """What the node's authorized_keys says beyond the client's own key."""
        path = self.homes[at] / ".ssh" / "authorized_keys"
        lines = path.read_text().splitlines() if path.exists() else []
        return "\n".join(line for line in lines if "client_ed25519" not in line)

    def left_behind(self) -> list[str]:
        """What a relay has left on these nodes: lines of keys, and processes that still belong to it."""
        return [f"{node.name}: {self.keys(at)}" for at, node in enumerate(self.nodes) if self.keys(at)]


def relay_folders() -> set[str]:
    """Directories of relays on this machine's tmpfs, which is every node's."""
    return {path.name for path in TMPFS.iterdir() if path.name.startswith(("ndctl-relay.", "ndctl-key."))}


def has_argument(beginning: str) -> bool:
    """Whether a process of this machine has an argument that begins like this."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    return any(word.startswith(beginning.encode()) for line in lines for word in line.split(b"\0"))


def wait_until(what: object, seconds: float = 15.0) -> None:
    """Until `what()` is true: for processes that end by themselves when their connection is gone."""
    until = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < until, f"still not so after {seconds:g} s"
        time.sleep(0.05)


@contextmanager
def started(
    folder: Path, count: int, *, options: Sequence[str] = (), head_options: Sequence[str] = (), shell: str = ""
) -> Iterator[OwnNodes]:
    """Start `count` nodes of rack 1. options: further sshd_config lines; head_options: of the first node only."""
    openssh.require()
    with ExitStack() as stack:
        servers: list[openssh.Sshd] = []
        nodes: list[Node] = []
        homes: list[Path] = []
        known: list[str] = []
        for at in range(1, count + 1):
            place = folder / f"n{at:02d}"
            home = place / "home"
            (home / ".ssh").mkdir(parents=True, mode=0o700)
            if servers:
                for name in ("client_ed25519", "client_ed25519.pub"):
                    shutil.copy(servers[0].folder / name, place / name)
            else:
                openssh.make_key(place / "client_ed25519")
            keys = home / ".ssh" / "authorized_keys"
            keys.write_text((place / "client_ed25519.pub").read_text())
            run = shell or 'eval "$SSH_ORIGINAL_COMMAND"'
            server = openssh.start(
                place,
                nodes=[f"127.1.1.{at}"],
                options=[f"AuthorizedKeysFile {keys}", *(head_options if at == 1 else ()), *options],
                force_command=f"export HOME={home}; cd; {run}",
            )
            stack.callback(server.stop)
            servers.append(server)
            homes.append(home)
            known.append(server.known_hosts.read_text())
            node = Node(node_name(1, at), rack_name(1), address=f"127.1.1.{at}", port=server.port)
            nodes.append(dataclasses.replace(node))
        path = folder / "known_hosts"
        path.write_text("".join(known))
        yield OwnNodes(folder, servers, nodes, homes, path)
