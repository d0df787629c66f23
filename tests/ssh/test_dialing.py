"""Connecting: names, several addresses of one name, IPv6, all within one connect time."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ndctl.model.answers import Command, NodeAnswer, OutcomeKind
from ndctl.model.places import Node
from ndctl.ssh.engine import Engine
from ndctl.ssh.known_hosts import parse_public_keys, write_entries
from ndctl.ssh.settings import Hop
from tests.ssh import sshd as openssh

ADDRESS = Command("address", "echo ${SSH_CONNECTION#* * }")
_REAL = socket.getaddrinfo


def ask(server: openssh.Sshd, node: Node, **changes: object) -> NodeAnswer:
    with Engine(server.settings(**{"retries": 0, **changes})) as engine:
        (answer,) = engine.ask({node: [ADDRESS]}).values()
    return answer


def named(server: openssh.Sshd, name: str) -> Node:
    """A node whose address is this name, its key known."""
    node = dataclasses.replace(server.nodes[0], address=name)
    write_entries(server.known_hosts, {(name, node.port): parse_public_keys(server.host_public_key)})
    return node


def resolve(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], list[str]]) -> None:
    """The name server gives these addresses for every name."""

    def look_up(host: str, port: int, **options: int) -> list[object]:
        if options.get("flags"):
            return list(_REAL(host, port, **options))
        return [found for address in answer() for found in _REAL(address, port, **options)]

    monkeypatch.setattr("ndctl.ssh.dialing.socket.getaddrinfo", look_up)


def test_a_name_that_does_not_exist(server: openssh.Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    resolve(monkeypatch, unknown)
    answer = ask(server, named(server, "gpu1.lab.example"), retries=3)
    assert answer.outcome.kind is OutcomeKind.UNREACHABLE
    assert answer.outcome.detail.endswith("Name or service not known")
    assert "is the name right?" in answer.outcome.hint


def test_a_name_server_for_a_moment_at_a_loss(server: openssh.Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, ["127.1.1.1"]])

    def at_first_none() -> list[str]:
        found = next(answers)
        if found is None:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return found

    resolve(monkeypatch, at_first_none)
    assert ask(server, named(server, "gpu1.lab.example"), retries=1, retry_first_s=0.01).outcome.ok


def test_a_silent_name_server_is_bounded(server: openssh.Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def silent() -> list[str]:
        over.wait(60)
        return []

    resolve(monkeypatch, silent)
    bad, good = named(server, "gpu1.lab.example"), server.nodes[1]
    with Engine(server.settings(retries=0, connect_s=2.0)) as engine:
        answers = list(engine.collect({bad: [ADDRESS], good: [ADDRESS]}))
    over.set()
    assert [answer.node for answer in answers] == [good, bad]
    assert answers[0].outcome.ok
    assert answers[1].outcome.kind is OutcomeKind.UNREACHABLE
    assert "no name server answered within 2 s" in answers[1].outcome.detail


def test_the_second_address_is_tried(server: openssh.Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, lambda: ["::1", "127.1.1.1"])  # nobody listens at the first
    answer = ask(server, named(server, "gpu1.lab.example"))
    assert answer.outcome.ok, answer.outcome


def test_all_addresses_share_the_connect_time(server: openssh.Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        queued = [socket.socket() for _ in range(4)]  # nobody accepts: further SYNs are dropped
        for caller in queued:
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", port))
        resolve(monkeypatch, lambda: ["127.0.0.1"] * 20)
        answer = ask(server, dataclasses.replace(server.nodes[0], address="gpu1.lab.example", port=port), connect_s=1.0)
        for caller in queued:
            caller.close()
    assert answer.outcome.kind is OutcomeKind.UNREACHABLE
    assert "did not answer within 1 s" in answer.outcome.detail
    assert answer.outcome.seconds < 15


def _no_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return True
    return False


@pytest.mark.skipif(_no_ipv6(), reason="this machine has no IPv6 loopback")
@pytest.mark.parametrize("jump", [False, True], ids=["direct", "through a jump host"])
def test_ipv6(start_sshd: Callable[..., openssh.Sshd], jump: bool) -> None:
    server = start_sshd(options=["ListenAddress ::1"])
    node = named(server, "::1")
    changes: dict[str, object] = {"jumps": ((Hop("::1", port=server.port),),)} if jump else {}
    answer = ask(server, node, **changes)
    assert answer.outcome.ok, answer.outcome
    assert answer.results["address"].stdout == f"::1 {server.port}\n"
    down = ask(server, dataclasses.replace(node, port=openssh.free_port()), **changes)
    assert down.outcome.kind is OutcomeKind.REFUSED
    assert down.outcome.detail.startswith("[::1]:")


@pytest.mark.parametrize("known", ["ed25519", "ecdsa", "rsa"])
@pytest.mark.parametrize("hashed", [False, True], ids=["plain", "hashed"])
def test_the_known_type_of_host_key_is_asked_for(
    start_sshd: Callable[..., openssh.Sshd], tmp_path: Path, known: str, hashed: bool
) -> None:
    """The server has three keys and would rather show another one."""
    keys = {kind: openssh.make_key(tmp_path / f"key_{kind}", kind) for kind in ("ed25519", "ecdsa", "rsa")}
    server = start_sshd(options=[f"HostKey {key}" for kind, key in keys.items() if kind != "ed25519"])
    public = Path(f"{keys[known]}.pub").read_text() if known != "ed25519" else server.host_public_key
    node = server.nodes[0]
    write_entries(server.known_hosts, {(node.address, node.port): parse_public_keys(public)})
    if hashed:
        subprocess.run(["ssh-keygen", "-H", "-f", str(server.known_hosts)], check=True, capture_output=True, timeout=30)
        assert server.known_hosts.read_text().startswith("|1|")
    answer = ask(server, node)
    assert answer.outcome.ok, answer.outcome
