"""Jump hosts that die or freeze while nodes are asked through them, and how many log in on one at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ndctl.model.answers import Command, NodeAnswer, OutcomeKind
from ndctl.ssh.engine import Engine
from ndctl.ssh.settings import Hop, SshSettings
from ndctl.ssh.target import Fault
from tests.ssh import sshd as openssh
from tests.ssh.sshd import _children

ECHO = Command("echo", "echo here")


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openssh.Sshd]:
    with openssh.start(tmp_path_factory.mktemp("behind"), nodes=8) as running:
        yield running


@pytest.fixture
def frozen() -> Iterator[Callable[[openssh.Sshd], None]]:
    """Stops a server and all it serves, as a crashed machine would: nothing is closed, nothing answers."""
    stopped: list[int] = []

    def freeze(server: openssh.Sshd) -> None:
        for pid in (server.process.pid, *_children(server.process.pid)):
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)

    yield freeze
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


def through(behind: openssh.Sshd, *doors: openssh.Sshd, **changes: object) -> SshSettings:
    return behind.settings(
        jumps=tuple((Hop(door.nodes[0].address, door.user, door.port),) for door in doors),
        private_keys=(behind.client_key, *(door.client_key for door in doors)),
        known_hosts=(behind.known_hosts, *(door.known_hosts for door in doors)),
        **{"channel_s": 120.0, **changes},
    )


def ask_and_lose(
    behind: openssh.Sshd, settings: SshSettings, started: Path, lose: Callable[[], None]
) -> dict[str, NodeAnswer]:
    """One node is being asked when `lose` is called, the others are asked after it."""
    os.mkfifo(started)
    first, *others = behind.nodes
    runs = started.with_name("runs")
    waits = Command("waits", f"echo x >>{runs}; echo x >{started}; sleep 40", timeout_s=60)
    with Engine(settings) as engine:
        asked = engine.collect({first: [ECHO, waits]})
        answers: list[NodeAnswer] = []
        collecting = threading.Thread(target=lambda: answers.extend(asked), daemon=True)
        collecting.start()
        started.read_text()
        lose()
        after = engine.ask({node: [ECHO] for node in others})
        collecting.join(90)
    assert runs.read_text() == "x\n", "what had begun was begun again"
    return {answer.node.name: answer for answer in [*answers, *after.values()]}


def test_one_that_dies_is_blamed_and_the_others_go_another_way(
    start_sshd: Callable[..., openssh.Sshd], behind: openssh.Sshd, tmp_path: Path
) -> None:
    dying, other = start_sshd(), start_sshd()

    def die() -> None:
        for pid in (dying.process.pid, *_children(dying.process.pid)):
            os.kill(pid, signal.SIGKILL)

    answers = ask_and_lose(behind, through(behind, dying, other), tmp_path / "started", die)
    lost = answers.pop(behind.nodes[0].name)
    assert lost.outcome.kind is OutcomeKind.CONNECTION_LOST
    assert lost.outcome.detail.startswith(f"the connection to jump host [127.1.1.1]:{dying.port} broke; ")
    assert lost.results["echo"].stdout == "here\n"
    assert [answer.outcome for answer in answers.values() if not answer.outcome.ok] == []
    assert len(answers) == 7


def test_the_only_one_is_blamed(start_sshd: Callable[..., openssh.Sshd], behind: openssh.Sshd, tmp_path: Path) -> None:
    door = start_sshd()
    answers = ask_and_lose(behind, through(behind, door, retries=0), tmp_path / "started", door.stop)
    assert answers.pop(behind.nodes[0].name).outcome.kind is OutcomeKind.CONNECTION_LOST
    for answer in answers.values():
        assert answer.outcome.kind in (OutcomeKind.REFUSED, OutcomeKind.UNREACHABLE)
        assert "jump host" in answer.outcome.detail


def test_one_that_freezes_is_found_out(
    start_sshd: Callable[..., openssh.Sshd],
    behind: openssh.Sshd,
    tmp_path: Path,
    frozen: Callable[[openssh.Sshd], None],
) -> None:
    """Nothing tells that it is gone; a node must not be called frozen in its place."""
    freezing, other = start_sshd(), start_sshd()
    settings = through(
        behind, freezing, other, connect_s=2.0, banner_s=20.0, channel_s=5.0, command_grace_s=1.0, retries=3
    )
    os.mkfifo(tmp_path / "started")
    first, *others = behind.nodes
    silent = Command("silent", f"echo x >{tmp_path}/started; sleep 40", timeout_s=1)
    with Engine(settings) as engine:
        answers: list[NodeAnswer] = []
        asking = threading.Thread(target=lambda: answers.extend(engine.collect({first: [ECHO, silent]})), daemon=True)
        asking.start()
        (tmp_path / "started").read_text()
        frozen(freezing)
        after = engine.ask({node: [ECHO] for node in others})
        asking.join(60)
    (lost,) = answers
    assert lost.outcome.kind is OutcomeKind.CONNECTION_LOST
    assert lost.outcome.detail.startswith(f"the connection to jump host [127.1.1.1]:{freezing.port} broke; ")
    assert [answer.outcome for answer in after.values() if not answer.outcome.ok] == []


def test_logins_at_once_on_one_jump_host_are_capped(behind: openssh.Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also over several chains that share it. Two may log in at once, and do."""
    at_once: list[int] = []
    inside = threading.Semaphore(0)
    lock = threading.Lock()
    pair = threading.Barrier(2)
    now = 0

    def log_in(*args: object) -> object:
        nonlocal now
        with lock:
            now += 1
            at_once.append(now)
        if len(at_once) <= 2:
            pair.wait(30)  # nobody leaves before the second is there
        inside.release()
        with lock:
            now -= 1
        raise Fault(OutcomeKind.AUTH_FAILED, "not today")

    monkeypatch.setattr("ndctl.ssh.jump.dial", lambda *args: None)
    monkeypatch.setattr("ndctl.ssh.connection.log_in", log_in)
    chains = tuple((Hop("door", f"user{at}", 22),) for at in range(6))
    with Engine(behind.settings(jumps=chains, logins_per_jump=2, retries=0)) as engine:
        answers = engine.ask({node: [ECHO] for node in behind.nodes})
    assert {answer.outcome.kind for answer in answers.values()} == {OutcomeKind.AUTH_FAILED}
    assert max(at_once) == 2
