"""What is offered at login: files, certificates, the agent; and how inventory words become settings."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ndctl.model.answers import Command, OutcomeKind
from ndctl.model.errors import NdctlError
from ndctl.ssh.engine import Engine
from ndctl.ssh.keys import load_identities
from ndctl.ssh.settings import Hop, settings_from
from tests.ssh import sshd as openssh

ECHO = Command("echo", "echo here")


def sign(authority: Path, key: Path, principal: str) -> Path:
    """An OpenSSH user certificate beside the key."""
    subprocess.run(
        ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", "-n", principal, f"{key}.pub"],
        check=True,
        timeout=30,
        capture_output=True,
    )
    return key.with_name(f"{key.name}-cert.pub")


def test_a_refused_certificate_is_followed_by_the_plain_key(server: openssh.Sshd, tmp_path: Path) -> None:
    """The server trusts no authority at all, but the plain key is authorized."""
    key = tmp_path / "client"
    shutil.copy(server.client_key, key)
    shutil.copy(f"{server.client_key}.pub", f"{key}.pub")
    sign(openssh.make_key(tmp_path / "authority"), key, server.user)
    offers = load_identities([key], agent=False).offers
    assert [offer.label.split()[0] for offer in offers] == ["certificate", str(key)]
    with Engine(server.settings(private_keys=(key,))) as engine:
        (answer,) = engine.ask({server.nodes[0]: [ECHO]}).values()
    assert answer.outcome.ok, answer.outcome


def test_a_certificate_alone_lets_in(start_sshd: Callable[..., openssh.Sshd], tmp_path: Path) -> None:
    authority = openssh.make_key(tmp_path / "authority")
    server = start_sshd(options=[f"TrustedUserCAKeys {authority}.pub", "AuthorizedKeysFile none"])
    key = openssh.make_key(tmp_path / "client")
    with Engine(server.settings(private_keys=(key,))) as engine:
        (before,) = engine.ask({server.nodes[0]: [ECHO]}).values()
    assert before.outcome.kind is OutcomeKind.AUTH_FAILED
    sign(authority, key, server.user)
    with Engine(server.settings(private_keys=(key,))) as engine:
        (after,) = engine.ask({server.nodes[0]: [ECHO]}).values()
    assert after.outcome.ok, after.outcome


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_key_types(start_sshd: Callable[..., openssh.Sshd], tmp_path: Path, kind: str) -> None:
    """As a user's key and as the host's."""
    server = start_sshd(host_key_type=kind)
    key = openssh.make_key(tmp_path / "client", kind)
    with (server.folder / "authorized_keys").open("a") as authorized:
        authorized.write(Path(f"{key}.pub").read_text())
    with Engine(server.settings(private_keys=(key,))) as engine:
        (answer,) = engine.ask({server.nodes[0]: [ECHO]}).values()
    assert answer.outcome.ok, answer.outcome


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """A fresh ssh-agent; the fixture's value adds a key to it."""
    openssh.require()
    socket_path = tmp_path / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it prints its variables once it listens
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket_path))

    def add(key: Path) -> None:
        subprocess.run(["ssh-add", "-q", str(key)], check=True, timeout=30, capture_output=True, env={**os.environ})

    yield add
    process.terminate()
    process.wait(5)
    process.stdout.close()


def test_the_agent_serves_many_connections_at_once(
    start_sshd: Callable[..., openssh.Sshd], agent: Callable[[Path], None]
) -> None:
    server = start_sshd(nodes=12)
    agent(server.client_key)
    with Engine(server.settings(private_keys=(), agent=True)) as engine:
        answers = engine.ask({node: [ECHO] for node in server.nodes})
    assert [answer.outcome for answer in answers.values() if not answer.outcome.ok] == []


def test_a_key_both_in_a_file_and_in_the_agent_is_offered_once(
    server: openssh.Sshd, agent: Callable[[Path], None]
) -> None:
    agent(server.client_key)
    assert len(load_identities([server.client_key], agent=True).offers) == 1
    assert load_identities([], agent=False).offers == ()


def test_an_agent_that_is_gone_is_a_remark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "no.sock"))
    assert load_identities([], agent=True).offers == ()


@pytest.mark.parametrize(
    "text", ["", "hello", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"]
)
def test_files_that_are_no_keys_are_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    identities = load_identities([path], agent=False)
    assert identities.offers == ()
    assert f"{path} is not a private key" in identities.problems[0]


def test_a_public_key_in_its_place_is_told(server: openssh.Sshd) -> None:
    (problem,) = load_identities([Path(f"{server.client_key}.pub")], agent=False).problems
    assert "is a public key" in problem


class TestSettings:
    def test_private_key_beside_the_public_one(self, tmp_path: Path) -> None:
        settings = settings_from(user="u", public_key="~/.ssh/id_x.pub", home=tmp_path)
        assert settings.private_keys == (tmp_path / ".ssh/id_x",)

    def test_private_key_wins(self, tmp_path: Path) -> None:
        settings = settings_from(user="u", public_key="~/a.pub", private_key="/b", home=tmp_path)
        assert settings.private_keys == (Path("/b"),)

    def test_a_pasted_public_key_leaves_the_usual_names(self, tmp_path: Path) -> None:
        (tmp_path / ".ssh").mkdir()
        (tmp_path / ".ssh/id_rsa").write_text("")
        settings = settings_from(user="u", public_key="ssh-ed25519 AAAA me@x.pub", home=tmp_path)
        assert settings.private_keys == (tmp_path / ".ssh/id_rsa",)

    def test_jumps_and_known_hosts(self, tmp_path: Path) -> None:
        settings = settings_from(user="u", jump=["j1", "a@j2:2,j3"], known_hosts=["~/kh", Path("/x")], home=tmp_path)
        assert settings.jumps == ((Hop("j1"),), (Hop("j2", "a", 2), Hop("j3")))
        assert settings.known_hosts == (tmp_path / "kh", Path("/x"))

    @pytest.mark.parametrize("text", ["", "a b", "user@", "h:port", "h:99999", "a,,b", "h:22:33"])
    def test_words_that_are_no_jump_host(self, text: str) -> None:
        with pytest.raises(NdctlError) as caught:
            settings_from(user="u", jump=[text])
        assert caught.value.code == "ssh.bad-jump"
        assert caught.value.exit_code == 2
