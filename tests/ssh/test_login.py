"""Logins that nearly work: what the server or the agent lacked is said, and a key that would do is found."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ndctl.model.answers import Command, NodeAnswer, OutcomeKind
from ndctl.ssh.engine import Engine
from ndctl.ssh.keys import load_identities
from tests.ssh import sshd as openssh

ECHO = Command("echo", "echo here")


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A fresh ssh-agent; the fixture's value runs ssh-add with these words."""
    openssh.require()
    path = tmp_path / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it prints its variables once it listens
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))

    def add(*words: str, passphrase: str = "") -> None:
        asking = tmp_path / "askpass"
        asking.write_text(f"#!/bin/sh\necho '{passphrase}'\n")
        asking.chmod(0o700)
        subprocess.run(
            ["ssh-add", "-q", *words],
            check=True,
            timeout=30,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "SSH_ASKPASS": str(asking), "SSH_ASKPASS_REQUIRE": "force"},
        )

    yield add
    process.terminate()
    process.wait(5)
    process.stdout.close()


def ask(server: openssh.Sshd, **changes: object) -> NodeAnswer:
    with Engine(server.settings(**{"retries": 0, **changes})) as engine:
        (answer,) = engine.ask({server.nodes[0]: [ECHO]}).values()
    return answer


def strangers(folder: Path, count: int) -> tuple[Path, ...]:
    return tuple(openssh.make_key(folder / f"stranger{at}") for at in range(count))


def sign(authority: Path, key: Path, principal: str) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", "-n", principal, f"{key}.pub"],
        check=True,
        timeout=30,
        capture_output=True,
    )


class TestServers:
    def test_that_want_more_than_a_key(self, start_sshd: Callable[..., openssh.Sshd]) -> None:
        server = start_sshd(options=["AuthenticationMethods publickey,password", "PasswordAuthentication yes"])
        answer = ask(server)
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert "wants more than a key: password" in answer.outcome.detail
        assert "AuthenticationMethods" in answer.outcome.hint

    def test_that_take_two_keys(self, start_sshd: Callable[..., openssh.Sshd], tmp_path: Path) -> None:
        server = start_sshd(options=["AuthenticationMethods publickey,publickey"])
        second = openssh.make_key(tmp_path / "second")
        with (server.folder / "authorized_keys").open("a") as authorized:
            authorized.write(Path(f"{second}.pub").read_text())
        assert ask(server, private_keys=(server.client_key, second)).outcome.ok

    def test_that_take_no_keys(self, start_sshd: Callable[..., openssh.Sshd]) -> None:
        server = start_sshd(options=["PubkeyAuthentication no", "PasswordAuthentication yes"])
        answer = ask(server)
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert "by no key, only by: password" in answer.outcome.detail

    @pytest.mark.parametrize("tries", [1, 2, 6])
    def test_that_hang_up_after_a_few_keys(
        self, start_sshd: Callable[..., openssh.Sshd], tmp_path: Path, tries: int
    ) -> None:
        server = start_sshd(options=[f"MaxAuthTries {tries}"])
        answer = ask(server, private_keys=(*strangers(tmp_path, 8), server.client_key))
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert "then hung up (Too many authentication failures)" in answer.outcome.detail
        assert answer.outcome.detail.count("stranger") == tries
        assert "ssh.private_key" in answer.outcome.hint

    def test_that_let_nobody_in_by_that_name(self, server: openssh.Sshd) -> None:
        answer = ask(server, user="nobody-at-all")
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert "is 'nobody-at-all' right?" in answer.outcome.hint


class TestAgent:
    def test_stands_in_for_an_encrypted_file(
        self, start_sshd: Callable[..., openssh.Sshd], agent: Callable[..., None], tmp_path: Path
    ) -> None:
        """The right key in its place, though the agent holds more keys before it than the server would hear."""
        server = start_sshd(options=["MaxAuthTries 2"])
        locked = openssh.make_key(tmp_path / "locked", passphrase="secret")
        (server.folder / "authorized_keys").write_text(Path(f"{locked}.pub").read_text())
        for key in strangers(tmp_path, 5):
            agent(str(key))
        without = ask(server, private_keys=(locked,), agent=True)
        assert without.outcome.kind is OutcomeKind.AUTH_FAILED
        assert f"{locked} is encrypted; add it to the agent first: ssh-add {locked}" in without.outcome.detail
        agent(str(locked), passphrase="secret")
        assert load_identities([locked], agent=True).problems == ()
        for named in (locked, Path(f"{locked}.pub")):
            assert ask(server, private_keys=(named,), agent=True).outcome.ok

    @pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
    def test_certificates(
        self, start_sshd: Callable[..., openssh.Sshd], agent: Callable[..., None], tmp_path: Path, kind: str
    ) -> None:
        authority = openssh.make_key(tmp_path / "authority")
        server = start_sshd(options=[f"TrustedUserCAKeys {authority}.pub", "AuthorizedKeysFile none"])
        key = openssh.make_key(tmp_path / "client", kind)
        sign(authority, key, server.user)
        agent(str(key))
        answer = ask(server, private_keys=(), agent=True)
        assert answer.outcome.ok, answer.outcome

    def test_that_refuses_to_sign_costs_no_other_key(
        self, start_sshd: Callable[..., openssh.Sshd], agent: Callable[..., None], tmp_path: Path
    ) -> None:
        server = start_sshd()
        (stranger,) = strangers(tmp_path, 1)
        agent(str(stranger))
        agent(str(server.client_key))
        settings = server.settings(private_keys=(), agent=True, retries=0)
        with Engine(settings) as engine:
            agent("-d", str(stranger))
            (answer,) = engine.ask({server.nodes[0]: [ECHO]}).values()
            assert answer.outcome.ok, answer.outcome
            agent("-D")
            (answer,) = engine.ask({server.nodes[0]: [ECHO]}).values()
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert "the SSH agent did not sign with client_ed25519: it refused" in answer.outcome.detail

    def test_that_never_signs_is_blamed_and_not_the_node(
        self, start_sshd: Callable[..., openssh.Sshd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As one does that waits for a person to confirm."""
        server = start_sshd()
        with StubbornAgent(tmp_path / "agent.sock", public_blob(server.client_key)) as path:
            monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
            answer = ask(server, private_keys=(), agent=True, auth_s=3.0)
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert "the SSH agent did not sign with agent key stubborn" in answer.outcome.detail
        assert "confirmation" in answer.outcome.hint

    def test_that_never_lists_its_keys(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: openssh.Sshd
    ) -> None:
        monkeypatch.setattr("ndctl.ssh.keys._AGENT_S", 0.2)
        with StubbornAgent(tmp_path / "agent.sock", None) as path:
            monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
            found = load_identities([server.client_key], agent=True)
        assert [one.label.split()[0] for one in found.offers] == [str(server.client_key)]
        assert found.problems == ("the SSH agent did not answer: silent for 0.2 s",)


class StubbornAgent:
    """Lists one key (or not even that), and answers nothing else."""

    def __init__(self, path: Path, blob: bytes | None) -> None:
        self._path = path
        self._blob = blob
        self._kept: list[socket.socket] = []

    def __enter__(self) -> Path:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return self._path

    def __exit__(self, *exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for caller in self._kept:
            caller.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self._kept.append(caller)
            if self._blob is not None:
                caller.recv(5)
                body = b"\x0c" + (1).to_bytes(4, "big") + _string(self._blob) + _string(b"stubborn")
                caller.sendall(_string(body))


def _string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def public_blob(key: Path) -> bytes:
    return base64.b64decode(Path(f"{key}.pub").read_text().split()[1])
