"""The fan-out itself: everyone answered, faults retried, stopping, and what it costs in threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ndctl.model.answers import Command, NodeAnswer, OutcomeKind
from ndctl.model.events import Event
from ndctl.model.places import Node
from ndctl.ssh.engine import Engine, retry_delay
from ndctl.ssh.settings import SshSettings
from tests.ssh import sshd as openssh
from tests.ssh.conftest import CraftedServer

ADDRESS = Command("address", "echo ${SSH_CONNECTION#* * }")


def test_sixty_four_nodes_each_answer_for_themselves(start_sshd: Callable[..., openssh.Sshd]) -> None:
    server = start_sshd(nodes=64)
    events: list[Event] = []
    with Engine(server.settings(channel_s=120.0), events=events.append) as engine:
        answers = engine.ask({node: [ADDRESS] for node in server.nodes})
    assert list(answers) == list(server.nodes)
    for node, answer in answers.items():
        assert answer.outcome.ok, answer.outcome
        assert answer.node is node
        assert answer.outcome.stdout == answer.results["address"].stdout == f"{node.address} {server.port}\n"
    assert sorted(event.node for event in events) == sorted(node.name for node in server.nodes)
    assert {event.status for event in events} == {"done"}


def test_fanout_bounds_what_is_open_at_once(start_sshd: Callable[..., openssh.Sshd], tmp_path: Path) -> None:
    server = start_sshd(nodes=9)
    here = tmp_path / "here"
    here.mkdir()
    counting = Command("count", f"touch {here}/$$; sleep 0.3; ls {here} | wc -l; rm {here}/$$")
    with Engine(server.settings(fanout=3)) as engine:
        answers = engine.ask({node: [counting] for node in server.nodes})
    counts = [int(answer.results["count"].stdout) for answer in answers.values()]
    assert max(counts) <= 3
    assert max(counts) > 1


def test_nothing_asked_nothing_answered() -> None:
    with Engine(SshSettings(user="nobody", agent=False)) as engine:
        assert engine.ask({}) == {}
        assert engine.user == "nobody"


def test_answers_come_as_they_are_ready(server: openssh.Sshd) -> None:
    slow, quick = server.nodes[0], server.nodes[1]
    with Engine(server.settings()) as engine:
        order = [
            answer.node
            for answer in engine.collect({slow: [Command("slow", "sleep 6")], quick: [Command("quick", "true")]})
        ]
    assert order == [quick, slow]


def test_an_engine_can_be_asked_again(server: openssh.Sshd) -> None:
    with Engine(server.settings()) as engine:
        for _ in range(2):
            assert all(answer.outcome.ok for answer in engine.ask({server.nodes[0]: [ADDRESS]}).values())


def test_long_scripts_arrive_by_stdin(server: openssh.Sshd) -> None:
    commands = [Command(f"c{at}", f": {'y' * 30_000}; echo {at}; cat") for at in range(8)]
    with Engine(server.settings()) as engine:
        (answer,) = engine.ask({server.nodes[0]: commands}).values()
    assert answer.outcome.ok
    assert [answer.results[f"c{at}"].stdout for at in range(8)] == [f"{at}\n" for at in range(8)]


def test_no_threads_are_left(server: openssh.Sshd) -> None:
    before = set(threading.enumerate())
    with Engine(server.settings()) as engine:
        engine.ask({node: [ADDRESS] for node in server.nodes})
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(10)
    assert not [thread for thread in left if thread.is_alive()]


class TestRetry:
    def quickly(self, port: int, retries: int) -> SshSettings:
        return SshSettings(
            user="nobody", port=port, agent=False, retries=retries, retry_first_s=0.01, retry_last_s=0.02
        )

    def test_dropped_before_the_banner_is_tried_again(self, craft: Callable[..., CraftedServer]) -> None:
        dropping = craft(hang_up=True)  # what sshd does beyond MaxStartups
        with Engine(self.quickly(dropping.port, 2)) as engine:
            (answer,) = engine.ask({Node("n1", "r", address="127.0.0.1"): [ADDRESS]}).values()
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE
        assert dropping.accepted == 3

    def test_a_node_that_comes_up_meanwhile_is_answered(self, start_sshd: Callable[..., openssh.Sshd]) -> None:
        """Refused at first; while the engine pauses the node's server comes up."""
        node_up: list[openssh.Sshd] = []
        server = start_sshd()
        port = server.port
        server.stop()

        def chance() -> float:
            node_up.append(start_sshd(port=port, keys=server))
            return 0.0

        with Engine(server.settings(retries=1, retry_first_s=0.01), chance=chance) as engine:
            (answer,) = engine.ask({server.nodes[0]: [ADDRESS]}).values()
        assert len(node_up) == 1
        assert answer.outcome.ok, answer.outcome

    def test_refusals_of_the_key_are_final(self, server: openssh.Sshd, tmp_path: Path) -> None:
        stranger = openssh.make_key(tmp_path / "stranger")
        paused: list[float] = []

        def chance() -> float:
            paused.append(0.0)
            return 0.0

        with Engine(server.settings(private_keys=(stranger,), retries=3), chance=chance) as engine:
            (answer,) = engine.ask({server.nodes[0]: [ADDRESS]}).values()
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert not paused

    @pytest.mark.parametrize(
        ("attempt", "chance", "seconds"), [(0, 1.0, 0.5), (0, 0.0, 0.25), (1, 1.0, 1.0), (3, 0.5, 3.0), (9, 1.0, 8.0)]
    )
    def test_pauses_double_and_jitter(self, attempt: int, chance: float, seconds: float) -> None:
        assert retry_delay(attempt, 0.5, 8.0, chance) == seconds


class TestStopping:
    def test_no_new_nodes_and_a_grace_for_the_running(self, server: openssh.Sshd) -> None:
        """One at a time: the first is running when the stop comes and may finish, the others are never asked."""
        with Engine(server.settings(fanout=1)) as engine:
            answers: list[NodeAnswer] = []
            first = server.nodes[0]
            quick = Command("quick", "echo done")
            for answer in engine.collect({node: [quick] for node in server.nodes}):
                answers.append(answer)
                engine.stop(grace_s=60)
        assert len(answers) == 3
        assert answers[0].node == first
        assert answers[0].outcome.ok
        # The second may have been under way; the third cannot have been.
        assert answers[-1].outcome.kind in (OutcomeKind.INTERRUPTED, OutcomeKind.OK)
        assert [a.outcome.kind for a in answers].count(OutcomeKind.INTERRUPTED) >= 1

    def test_a_worker_that_gets_free_after_the_stop_begins_nothing(self, server: openssh.Sshd, tmp_path: Path) -> None:
        """The stop comes from the first node's own visit, long before whoever collects looks at it."""
        begun = tmp_path / "begun"
        begun.mkdir()
        fifo = tmp_path / "started"
        os.mkfifo(fifo)
        commands = [Command("mark", f"touch {begun}/$$; [ ! -p {fifo} ] || echo x >{fifo}; rm -f {fifo}")]
        with Engine(server.settings(fanout=1)) as engine:

            def stop_when_started() -> None:
                fifo.read_text()
                engine.stop(grace_s=60)

            stopper = threading.Thread(target=stop_when_started, daemon=True)
            stopper.start()
            answers = list(engine.collect(dict.fromkeys(server.nodes, commands)))
            stopper.join(10)
        assert [answer.outcome.ok for answer in answers].count(True) == 1
        assert len(list(begun.iterdir())) == 1
        assert {a.outcome.kind for a in answers if not a.outcome.ok} == {OutcomeKind.INTERRUPTED}

    def test_those_that_overstay_are_cut_and_keep_what_they_gave(self, server: openssh.Sshd, tmp_path: Path) -> None:
        fifo = tmp_path / "started"
        os.mkfifo(fifo)
        commands = [
            Command("given", "echo given", order=-1),
            Command("stays", f"echo x >{fifo}; sleep 30", timeout_s=40),
        ]
        with Engine(server.settings()) as engine:

            def stop_when_started() -> None:
                fifo.read_text()
                engine.stop(grace_s=0.5)

            stopper = threading.Thread(target=stop_when_started, daemon=True)
            stopper.start()
            (answer,) = engine.collect({server.nodes[0]: commands})
            stopper.join(10)
        assert answer.outcome.kind is OutcomeKind.INTERRUPTED
        assert answer.results["given"].stdout == "given\n"
        assert "stays" not in answer.results
        assert answer.outcome.seconds < 30

    def test_leaving_the_iteration_cuts_the_rest(self, server: openssh.Sshd) -> None:
        with Engine(server.settings()) as engine:
            answers = engine.collect(
                {server.nodes[0]: [ADDRESS], server.nodes[1]: [Command("long", "sleep 30", timeout_s=40)]}
            )
            assert next(answers).node == server.nodes[0]
            answers.close()
            (other,) = engine.ask({server.nodes[2]: [ADDRESS]}).values()
            assert other.outcome.ok, "the engine itself goes on"

    def test_a_stopped_engine_collects_from_nobody_but_can_be_asked_to_clean_up(self, server: openssh.Sshd) -> None:
        with Engine(server.settings()) as engine:
            engine.stop()
            answers = list(engine.collect({node: [ADDRESS] for node in server.nodes}))
            cleaned = engine.ask({node: [ADDRESS] for node in server.nodes})
        assert [answer.node for answer in answers] == list(server.nodes)
        assert {answer.outcome.kind for answer in answers} == {OutcomeKind.INTERRUPTED}
        assert all(answer.outcome.ok for answer in cleaned.values())


def test_fan_outs_at_once_share_the_connections(start_sshd: Callable[..., openssh.Sshd], tmp_path: Path) -> None:
    server = start_sshd(nodes=12)
    here = tmp_path / "here"
    here.mkdir()
    counting = Command("count", f"touch {here}/$$; sleep 0.3; ls {here} | wc -l; rm {here}/$$")
    counts: list[int] = []
    with Engine(server.settings(fanout=4)) as engine:

        def ask(nodes: tuple[Node, ...]) -> None:
            answers = engine.ask({node: [counting] for node in nodes})
            counts.extend(int(answer.results["count"].stdout) for answer in answers.values())

        asking = [threading.Thread(target=ask, args=(server.nodes[at : at + 3],)) for at in range(0, 12, 3)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(60)
    assert len(counts) == 12
    assert max(counts) <= 4


def test_stopping_one_fan_out_early_leaves_the_other_alone(server: openssh.Sshd) -> None:
    with Engine(server.settings(fanout=3)) as engine:
        first = engine.collect({server.nodes[0]: [ADDRESS], server.nodes[1]: [Command("long", "sleep 20")]})
        assert next(first).node == server.nodes[0]
        begun, told = threading.Event(), []

        def ask() -> None:
            begun.set()
            told.extend(engine.ask({server.nodes[2]: [Command("while", "sleep 1; echo whole")]}).values())

        other = threading.Thread(target=ask)
        other.start()
        begun.wait(10)
        first.close()
        other.join(30)
    assert told[0].outcome.stdout == "whole\n"


def test_a_fault_of_our_own_is_an_answer_too(server: openssh.Sshd) -> None:
    broken = Node("n1", "r", address="127.1.1.1", port=99999)
    with Engine(server.settings()) as engine:
        answers = engine.ask({broken: [ADDRESS], server.nodes[0]: [ADDRESS]})
    assert not answers[broken].outcome.ok
    assert answers[server.nodes[0]].outcome.ok
