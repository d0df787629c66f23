"""Jump hosts, with a real sshd as bastion and another as the nodes behind it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ndctl.model.answers import Command, OutcomeKind
from ndctl.ssh.engine import Engine
from ndctl.ssh.settings import Hop, SshSettings, parse_jump
from tests.ssh import sshd as openssh

ADDRESS = Command("address", "echo ${SSH_CONNECTION#* * }")


@pytest.fixture(scope="module")
def bastion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openssh.Sshd]:
    """127.1.1.1 and 127.1.1.2 are jump hosts."""
    with openssh.start(tmp_path_factory.mktemp("bastion"), nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openssh.Sshd]:
    """Nodes of their own server, 36 of them."""
    with openssh.start(tmp_path_factory.mktemp("behind"), nodes=36) as running:
        yield running


def hop(bastion: openssh.Sshd, at: int = 0) -> Hop:
    return Hop(bastion.nodes[at].address, bastion.user, bastion.port)


def through(bastion: openssh.Sshd, behind: openssh.Sshd, *chains: tuple[Hop, ...], **changes: object) -> SshSettings:
    return behind.settings(
        jumps=chains,
        private_keys=(bastion.client_key, behind.client_key),
        known_hosts=(behind.known_hosts, bastion.known_hosts),
        **{"channel_s": 120.0, **changes},  # many logins at once on few cores
    )


def logins(server: openssh.Sshd) -> int:
    return len(re.findall("Accepted publickey", server.log))


def test_all_nodes_through_a_few_logins(bastion: openssh.Sshd, behind: openssh.Sshd) -> None:
    before = logins(bastion)
    with Engine(through(bastion, behind, (hop(bastion),))) as engine:
        answers = engine.ask({node: [ADDRESS] for node in behind.nodes})
    assert [answer.outcome for answer in answers.values() if not answer.outcome.ok] == []
    for node, answer in answers.items():
        assert answer.results["address"].stdout.split()[0] == node.address
    assert 1 <= logins(bastion) - before <= 4


def test_a_strict_bastion_loses_nobody(start_sshd: Callable[..., openssh.Sshd], behind: openssh.Sshd) -> None:
    """The defaults of sshd: more than ten logins beginning at once are refused at random."""
    strict = start_sshd(options=["MaxStartups 10:30:100", "MaxSessions 10"])
    with Engine(through(strict, behind, (hop(strict),))) as engine:
        answers = engine.ask({node: [ADDRESS] for node in behind.nodes})
    assert [answer.outcome for answer in answers.values() if not answer.outcome.ok] == []


def test_several_jump_hosts_share_the_work(bastion: openssh.Sshd, behind: openssh.Sshd) -> None:
    chains = ((hop(bastion, 0),), (hop(bastion, 1),))
    before = bastion.log
    with Engine(through(bastion, behind, *chains)) as engine:
        answers = engine.ask({node: [ADDRESS] for node in behind.nodes})
    assert [answer.outcome for answer in answers.values() if not answer.outcome.ok] == []
    new = bastion.log[len(before) :]
    for node in bastion.nodes:
        assert f"on {node.address} port" in new


def test_a_chain_of_two_hops(bastion: openssh.Sshd, behind: openssh.Sshd) -> None:
    chain = (hop(bastion, 0), hop(bastion, 1))
    with Engine(through(bastion, behind, chain)) as engine:
        (answer,) = engine.ask({behind.nodes[0]: [ADDRESS]}).values()
    assert answer.outcome.ok


def test_a_dead_jump_host_hands_over_to_the_other(bastion: openssh.Sshd, behind: openssh.Sshd) -> None:
    dead = (Hop("127.1.1.1", bastion.user, openssh.free_port()),)
    with Engine(through(bastion, behind, dead, (hop(bastion, 1),))) as engine:
        answers = engine.ask({node: [ADDRESS] for node in behind.nodes[:8]})
    assert [answer.outcome for answer in answers.values() if not answer.outcome.ok] == []


def test_a_dead_jump_host_is_blamed_and_not_the_node(bastion: openssh.Sshd, behind: openssh.Sshd) -> None:
    dead = (Hop("127.1.1.1", bastion.user, openssh.free_port()),)
    with Engine(through(bastion, behind, dead, retries=0)) as engine:
        answers = engine.ask({node: [ADDRESS] for node in behind.nodes[:3]})
    for answer in answers.values():
        assert answer.outcome.kind is OutcomeKind.REFUSED
        assert answer.outcome.detail.startswith("jump host: [127.1.1.1]:")


def test_each_hops_host_key_is_verified(bastion: openssh.Sshd, behind: openssh.Sshd) -> None:
    settings = dataclasses.replace(through(bastion, behind, (hop(bastion),)), known_hosts=(behind.known_hosts,))
    with Engine(settings) as engine:
        (answer,) = engine.ask({behind.nodes[0]: [ADDRESS]}).values()
    assert answer.outcome.kind is OutcomeKind.HOST_KEY_UNKNOWN
    assert answer.outcome.detail.startswith("jump host: ")


def test_the_nodes_host_key_is_verified_behind_the_jump(bastion: openssh.Sshd, behind: openssh.Sshd) -> None:
    settings = dataclasses.replace(through(bastion, behind, (hop(bastion),)), known_hosts=(bastion.known_hosts,))
    with Engine(settings) as engine:
        (answer,) = engine.ask({behind.nodes[0]: [ADDRESS]}).values()
    assert answer.outcome.kind is OutcomeKind.HOST_KEY_UNKNOWN
    assert not answer.outcome.detail.startswith("jump host: ")


def test_refused_behind_the_jump(bastion: openssh.Sshd, behind: openssh.Sshd) -> None:
    down = dataclasses.replace(behind.nodes[0], name="rack01-n90", port=openssh.free_port())
    with Engine(through(bastion, behind, (hop(bastion),), retries=0)) as engine:
        answers = engine.ask({down: [ADDRESS], behind.nodes[1]: [ADDRESS]})
    assert answers[down].outcome.kind is OutcomeKind.REFUSED
    assert "through" in answers[down].outcome.detail
    assert answers[behind.nodes[1]].outcome.ok


def test_a_bastion_that_forbids_forwarding(start_sshd: Callable[..., openssh.Sshd], behind: openssh.Sshd) -> None:
    closed = start_sshd(options=["AllowTcpForwarding no"])
    with Engine(through(closed, behind, (hop(closed),))) as engine:
        (answer,) = engine.ask({behind.nodes[0]: [ADDRESS]}).values()
    assert answer.outcome.kind is OutcomeKind.UNREACHABLE
    assert "AllowTcpForwarding" in answer.outcome.hint


def test_a_silent_hop_is_bounded(bastion: openssh.Sshd, behind: openssh.Sshd, craft: Callable[..., object]) -> None:
    silent = craft()
    chain = (Hop("127.0.0.1", bastion.user, silent.port),)  # type: ignore[attr-defined]
    with Engine(through(bastion, behind, chain, banner_s=2.0, retries=0)) as engine:
        answers = engine.ask({node: [ADDRESS] for node in behind.nodes[:6]})
    for answer in answers.values():
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE
        assert "no SSH banner within 2 s" in answer.outcome.detail
        assert answer.outcome.seconds < 20


def test_from_ssh_config(bastion: openssh.Sshd, behind: openssh.Sshd, tmp_path: Path) -> None:
    """Alias, port, key and ProxyJump all from the user's file."""
    config = tmp_path / "config"
    config.write_text(
        f"Host gpu1\n HostName {behind.nodes[4].address}\n Port {behind.port}\n IdentityFile {behind.client_key}\n"
        f" ProxyJump door\nHost door\n HostName {bastion.nodes[0].address}\n Port {bastion.port}\n"
        f" IdentityFile {bastion.client_key}\n UserKnownHostsFile {bastion.known_hosts}\n ForwardAgent yes\n"
    )
    settings = SshSettings(user=behind.user, agent=False, known_hosts=(behind.known_hosts,), user_config=config)
    node = dataclasses.replace(behind.nodes[4], address="gpu1", port=22)
    with Engine(settings) as engine:
        (answer,) = engine.ask({node: [ADDRESS]}).values()
        assert engine.remarks == (f"ssh_config: ignored {config}:11 ForwardAgent",)
    assert answer.outcome.ok, answer.outcome
    assert answer.results["address"].stdout.split()[0] == behind.nodes[4].address


def test_jump_words() -> None:
    assert parse_jump("bastion") == (Hop("bastion"),)
    assert parse_jump("al@b:22, [fe80::1]:2222") == (Hop("b", "al", 22), Hop("fe80::1", "", 2222))
    assert str(Hop("fe80::1", "al", 2222)) == "al@[fe80::1]:2222"
