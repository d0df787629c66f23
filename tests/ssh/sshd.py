"""One real OpenSSH server on every loopback address: each 127.1.R.N is a node, with no address set-up.

    with sshd.start(tmp_path, nodes=2) as server:
        Engine(server.settings()).ask({server.nodes[0]: [Command("who", "id -un")]})

It runs as whoever runs the tests and lets only that user in. Its configuration, host keys and client key live in the
folder it is given. Root's own sshd runs without PAM, so a locked root account ("!" in /etc/shadow) cannot log in.
"""

from __future__ import annotations

import dataclasses
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ndctl.model.places import Node, node_name, rack_name
from ndctl.ssh.settings import SshSettings

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))
_START_S = 10.0


def require() -> None:
    """Skip with the reason where there is no sshd; in CI that is an error, not a skip."""
    if SSHD is None or shutil.which("ssh-keygen") is None:
        if os.environ.get("CI") == "true":
            raise RuntimeError("openssh-server is missing: apt-get install openssh-server openssh-client")
        pytest.skip("no OpenSSH server on this machine (apt-get install openssh-server)")


@dataclass
class Sshd:
    """A running server. `port` is the same on all nodes; `client_key` is accepted, `known_hosts` knows every node."""

    folder: Path
    port: int
    user: str
    nodes: tuple[Node, ...]
    client_key: Path
    host_key: Path
    known_hosts: Path
    process: subprocess.Popen[bytes] = field(repr=False)

    def __enter__(self) -> Sshd:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def host_public_key(self) -> str:
        return self.host_key.with_suffix(".pub").read_text().strip()

    @property
    def log(self) -> str:
        return (self.folder / "sshd.log").read_text(errors="replace")

    def settings(self, **changes: object) -> SshSettings:
        """Settings that reach these nodes and touch nothing of the user's own: no agent, no ssh_config."""
        plain = SshSettings(
            user=self.user,
            port=self.port,
            private_keys=(self.client_key,),
            agent=False,
            known_hosts=(self.known_hosts,),
        )
        return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]

    def stop(self) -> None:
        """End the server and the connections it still serves."""
        if self.process.poll() is None:
            children = _children(self.process.pid)
            folders = {folder for child in children for folder in _script_folders(child)}
            for child in children:
                _end(child)
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)  # a script killed like this cannot clean up itself
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)


def addresses(count: int, per_rack: int = 18) -> list[tuple[str, str, str]]:
    """(name, rack, address) of `count` nodes: rack 1 is 127.1.1.1 … 127.1.1.18, rack 2 127.1.2.1 …"""
    places = [(index // per_rack + 1, index % per_rack + 1) for index in range(count)]
    return [(node_name(rack, at), rack_name(rack), f"127.1.{rack}.{at}") for rack, at in places]


def start(
    folder: Path,
    nodes: int | Iterable[str] = 1,
    *,
    force_command: str | None = None,
    options: Sequence[str] = (),
    host_key_type: str = "ed25519",
    port: int | None = None,
    keys: Sshd | None = None,
) -> Sshd:
    """Start a server in `folder` for so many loopback nodes, or for these addresses.

    force_command: run instead of what is asked; the node's address is field 3 of $SSH_CONNECTION
    port, keys:    a given port, and host and client key of another server: the same node come back
    options:       further lines of sshd_config; the first word given wins over the fixture's own line
    Without an sshd on this machine the test is skipped, in CI it fails.
    """
    require()
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(nodes, int):
        places = addresses(nodes)
    else:
        places = [(node_name(1, at), rack_name(1), address) for at, address in enumerate(nodes, start=1)]
    host_key = keys.host_key if keys else folder / f"host_{host_key_type}"
    client_key = keys.client_key if keys else folder / "client_ed25519"
    make_key(host_key, host_key_type)
    make_key(client_key)
    public = client_key.with_suffix(".pub").read_text()
    authorized = folder / "authorized_keys"
    if not authorized.exists():
        authorized.write_text(public)
    port = port or free_port()
    lines = [
        *options,
        f"Port {port}",
        "ListenAddress 0.0.0.0",
        f"HostKey {host_key}",
        f"PidFile {folder}/sshd.pid",
        f"AuthorizedKeysFile {authorized}",
        "StrictModes no",
        "UsePAM no",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PrintMotd no",
        "UseDNS no",
        "MaxStartups 4096",
        "MaxSessions 64",
        "AllowTcpForwarding yes",
        "LogLevel VERBOSE",
        # bash reads ~/.bashrc for a command over ssh, but not as an inner shell: what the user of this machine has in
        # there (some look for locks, and wait a minute for them) is no part of a node.
        "SetEnv SHLVL=1",
    ]
    if force_command:
        lines.append(f"ForceCommand {force_command}")
    config = folder / "sshd_config"
    config.write_text("\n".join(lines) + "\n")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)  # where a root sshd puts its unprivileged half
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen(
            [str(SSHD), "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    known_hosts = folder / "known_hosts"
    kind, blob = host_key.with_suffix(".pub").read_text().split()[:2]
    known_hosts.write_text("".join(f"[{address}]:{port} {kind} {blob}\n" for _, _, address in places))
    server = Sshd(
        folder=folder,
        port=port,
        user=getpass.getuser(),
        nodes=tuple(Node(name, rack, address=address, port=port) for name, rack, address in places),
        client_key=client_key,
        host_key=host_key,
        known_hosts=known_hosts,
        process=process,
    )
    try:
        _wait_for_banner(server)
    except BaseException:
        server.stop()
        raise
    return server


def make_key(path: Path, kind: str = "ed25519", *, passphrase: str = "") -> Path:
    """A key pair at `path` and `path`.pub, unless it is there."""
    if not path.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", str(path)],
            check=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        return int(probe.getsockname()[1])


def _wait_for_banner(server: Sshd) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if server.process.poll() is not None:
            raise RuntimeError(f"sshd ended at once: {server.log}")
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=1) as probe:
                if probe.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.02)  # the only wait here: for another program to listen
    raise RuntimeError(f"sshd did not answer within {_START_S:g} s: {server.log}")


def _children(pid: int) -> list[int]:
    """Processes whose parent is `pid`, and theirs, deepest last."""
    found: list[int] = []
    try:
        direct = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in map(int, direct):
        found.append(child)
        found.extend(_children(child))
    return found


def _script_folders(pid: int) -> list[Path]:
    """Private directories of node scripts in which this process has its output."""
    links = []
    for number in (1, 2):
        try:
            links.append(Path(os.readlink(f"/proc/{pid}/fd/{number}")))
        except OSError:
            continue
    return [link.parent for link in links if link.parent.name.startswith(("ndctl.", "ndctl-relay."))]


def _end(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return
