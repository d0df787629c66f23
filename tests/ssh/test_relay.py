"""A rack asked through its head, on real sshds whose nodes share nothing."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from ndctl.model.answers import Command, NodeAnswer, OutcomeKind
from ndctl.model.events import Event
from ndctl.model.places import Node
from ndctl.ssh import relay_script
from ndctl.ssh.engine import Engine
from ndctl.ssh.known_hosts import parse_public_keys, write_entries
from ndctl.ssh.relay import RelayEngine
from ndctl.ssh.relay_agent import LoginAgent
from tests.ssh import sshd as openssh
from tests.ssh.own_nodes import OwnNodes, has_argument, relay_folders, started, wait_until
from tests.ssh.test_faults import _FIND_SSHD

pytestmark = pytest.mark.xdist_group("relay")  # what is left on tmpfs is looked for on the whole machine

WHERE = Command("where", "echo ${SSH_CONNECTION#* * }")
ECHO = Command("echo", "echo here")
NODES = 4


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNodes]:
    with started(tmp_path_factory.mktemp("own"), NODES) as nodes:
        yield nodes


@pytest.fixture(autouse=True)
def _nothing_is_left(rack: OwnNodes) -> Iterator[None]:
    before = relay_folders()
    yield
    assert rack.left_behind() == []
    wait_until(lambda: relay_folders() <= before)


def by_node(answers: object) -> dict[str, NodeAnswer]:
    return {answer.node.name: answer for answer in answers}  # type: ignore[attr-defined]


def logins(rack: OwnNodes, at: int) -> int:
    """How often somebody was let in on a node."""
    return rack.servers[at].log.count("Accepted publickey")


class TestAskingOnce:
    def test_every_node_answers_for_itself_and_only_the_head_is_logged_in_to_from_here(self, rack: OwnNodes) -> None:
        before = [logins(rack, at) for at in range(NODES)]
        with RelayEngine(rack.settings(), single=True) as engine:
            answers = by_node(engine.collect({node: [WHERE, ECHO] for node in rack.nodes}))
            assert engine.relay_remarks == ()
        for node in rack.nodes:
            answer = answers[node.name]
            assert answer.outcome.ok, answer.outcome
            assert answer.results["where"].stdout == f"{node.address} {node.port}\n"
            assert answer.results["echo"].stdout == "here\n"
        assert [logins(rack, at) - before[at] for at in range(NODES)] == [1] * NODES

    def test_a_head_that_speaks_before_we_have_heard_that_it_was_started_is_not_cut(
        self, rack: OwnNodes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started = paramiko.Channel.exec_command

        def slowly(channel: paramiko.Channel, command: str) -> None:
            started(channel, command)
            time.sleep(1)  # a busy client: the head's first word is read meanwhile

        monkeypatch.setattr(paramiko.Channel, "exec_command", slowly)
        with RelayEngine(rack.settings(), single=True) as engine:
            answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
            assert engine.relay_remarks == ()
        assert all(answers[node.name].outcome.ok for node in rack.nodes)

    def test_nothing_is_put_on_a_node(self, rack: OwnNodes) -> None:
        keys = Command("keys", "cat ~/.ssh/authorized_keys; ls -d /dev/shm/ndctl-key.* 2>/dev/null")
        with RelayEngine(rack.settings(), single=True) as engine:
            answers = by_node(engine.collect({node: [keys] for node in rack.nodes}))
        for node in rack.nodes:
            assert answers[node.name].results["keys"].stdout.count("\n") == 1

    def test_the_private_key_and_the_agent_stay_out_of_reach(self, rack: OwnNodes) -> None:
        """The head's own commands do not see the agent; the peers have none."""
        see = Command("see", 'echo "agent=$SSH_AUTH_SOCK"')
        with RelayEngine(rack.settings(), single=True) as engine:
            answers = by_node(engine.collect({node: [see] for node in rack.nodes}))
        assert {answer.results["see"].stdout for answer in answers.values()} == {"agent=\n"}

    def test_caps_truncation_codes_and_long_scripts_are_as_when_asked_directly(self, rack: OwnNodes) -> None:
        commands = [
            Command("big", "head -c 50000000 /dev/zero | tr '\\0' x", cap_bytes=100_000, timeout_s=60),
            Command("code", "echo oops >&2; exit 255"),
            Command("gone", "no-such-tool"),
            Command("hang", "echo so far; sleep 60", timeout_s=1),
            Command("long", f": {'y' * 110_000}; echo long"),
            Command("last", "printf 'a\\377\\000b'", order=5),
        ]
        requests = dict.fromkeys(rack.nodes, commands)
        with RelayEngine(rack.settings(), single=True) as engine:
            relayed = by_node(engine.collect(requests))
        with Engine(rack.settings()) as plain:
            direct = by_node(plain.collect(requests))
        for name in direct:
            assert relayed[name].outcome.kind is direct[name].outcome.kind is OutcomeKind.OK
            assert {key: dataclasses.replace(one, seconds=0) for key, one in relayed[name].results.items()} == {
                key: dataclasses.replace(one, seconds=0) for key, one in direct[name].results.items()
            }

    def test_more_than_fits_one_block_arrives_whole(self, rack: OwnNodes) -> None:
        big = Command("big", "i=0; while [ $i -lt 300000 ]; do echo $i; i=$((i+1)); done", timeout_s=60)
        with RelayEngine(rack.settings(), single=True) as engine:
            answers = by_node(engine.collect({node: [big] for node in rack.nodes}))
        whole = "".join(f"{i}\n" for i in range(300_000))
        assert [answer.results["big"].stdout == whole for answer in answers.values()] == [True] * NODES

    def test_a_head_without_python_does_with_a_channel_a_login(
        self, rack: OwnNodes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(relay_script, "PYTHON", "python-that-is-missing")
        with RelayEngine(rack.settings(), single=True) as engine:
            answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
            assert engine.relay_remarks == ()
        assert all(answer.outcome.ok for answer in answers.values())

    @pytest.mark.parametrize("python", ["python3", "python-that-is-missing"])
    def test_a_key_of_the_users_own_agent_serves_too(
        self, rack: OwnNodes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: str
    ) -> None:
        monkeypatch.setattr(relay_script, "PYTHON", python)
        printed = subprocess.run(
            ["ssh-agent", "-s", "-a", str(tmp_path / "agent")], check=True, capture_output=True, text=True, timeout=30
        )
        pid = int(re.search(r"SSH_AGENT_PID=(\d+)", printed.stdout)[1])  # type: ignore[index]
        try:
            monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
            add = ["ssh-add", "-q", str(rack.servers[0].client_key)]
            subprocess.run(add, check=True, timeout=30, stdin=subprocess.DEVNULL)
            settings = rack.settings(private_keys=(), agent=True)
            with RelayEngine(settings, single=True) as engine:
                answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
                assert engine.relay_remarks == ()
            assert all(answer.outcome.ok for answer in answers.values())
        finally:
            os.kill(pid, signal.SIGTERM)

    def test_two_nodes_are_not_worth_a_head(self, rack: OwnNodes) -> None:
        before = logins(rack, 0)
        with RelayEngine(rack.settings(), single=True) as engine:
            answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes[:2]}))
        assert all(answer.outcome.ok for answer in answers.values())
        assert logins(rack, 0) - before == 1

    def test_ask_is_never_relayed(self, rack: OwnNodes) -> None:
        """What is launched on several nodes needs all of them at once: each waits here for all the others."""
        meet = rack.folder / "meet"
        meet.mkdir()
        wait = Command(
            "wait", f"touch {meet}/$$; until [ $(ls {meet} | wc -l) = {NODES} ]; do sleep 0.1; done; echo met"
        )
        with RelayEngine(rack.settings()) as engine:
            answers = engine.ask({node: [wait] for node in rack.nodes})
        assert [answer.results["wait"].stdout for answer in answers.values()] == ["met\n"] * NODES

    def test_events_tell_of_each_node_once(self, rack: OwnNodes) -> None:
        events: list[Event] = []
        with RelayEngine(rack.settings(), single=True, events=events.append) as engine:
            list(engine.collect({node: [ECHO] for node in rack.nodes}))
        assert sorted(event.node for event in events) == sorted(node.name for node in rack.nodes)


class TestAskingOften:
    def test_the_ephemeral_key_is_restricted_used_and_removed(self, rack: OwnNodes) -> None:
        keys = Command("keys", "cat ~/.ssh/authorized_keys")
        with RelayEngine(rack.settings()) as engine:
            first = by_node(engine.collect({node: [keys] for node in rack.nodes}))
            lines = [first[node.name].results["keys"].stdout.splitlines() for node in rack.nodes]
            assert len(lines[0]) == 1, "the head does not admit its own key"
            for peer in lines[1:]:
                assert re.fullmatch(
                    r'restrict,expiry-time="\d{12}",from="127\.0\.0\.1" ssh-ed25519 \S+ ndctl-relay-[0-9a-f]{24}:',
                    peer[1],
                )
            before = rack.servers[1].log.count("Accepted publickey")
            second = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
            assert all(answer.outcome.ok for answer in second.values())
            assert engine.relay_remarks == ()
            accepted = rack.servers[1].log.split("Accepted publickey")[before + 1]
            made = lines[1][1].split()[2]
            assert _fingerprint(made, rack.folder) in accepted, "the second time the ephemeral key let the head in"
            assert len([name for name in relay_folders() if name.startswith("ndctl-key.")]) >= 1
        assert engine.relay_remarks == ()

    def test_the_key_lets_in_from_the_head_only_and_opens_nothing_else(self, rack: OwnNodes) -> None:
        """What somebody could do who got the key from the head: tried while it is admitted."""
        with RelayEngine(rack.settings()) as engine:
            list(engine.collect({node: [ECHO] for node in rack.nodes}))
            peer = rack.nodes[1]
            key = next(Path("/dev/shm").glob("ndctl-key.*/key"))
            ssh = [
                "ssh", "-F", "none", "-i", str(key), "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none",
                "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={rack.known_hosts}", "-p", str(peer.port),
                "-l", rack.servers[0].user,
            ]  # fmt: skip
            inside = subprocess.run([*ssh, peer.address, "echo in"], capture_output=True, text=True, timeout=60)
            assert inside.stdout == "in\n"
            elsewhere = subprocess.run(
                [*ssh, "-b", "127.9.9.9", peer.address, "echo in"], capture_output=True, text=True, timeout=60
            )
            assert "Permission denied" in elsewhere.stderr
            tunnel = subprocess.run(
                [*ssh, "-W", f"127.0.0.1:{peer.port}", peer.address], capture_output=True, text=True, timeout=60
            )
            assert "administratively prohibited" in tunnel.stderr or "forwarding failed" in tunnel.stderr

    def test_a_key_that_is_not_honoured_costs_no_answer(self, tmp_path: Path) -> None:
        """An sshd that reads other authorized_keys than the user's: from then on the agent lets the head in."""
        with started(
            tmp_path, 3, shell='export HOME="$HOME/elsewhere"; mkdir -p "$HOME"; eval "$SSH_ORIGINAL_COMMAND"'
        ) as rack:
            with RelayEngine(rack.settings()) as engine:
                for _ in range(3):
                    answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
                    assert all(answer.outcome.ok for answer in answers.values())
                told = [text for text in engine.relay_remarks if "refused the login" in text]
                assert len(told) == 2, "only the second time"
            for home in rack.homes:
                assert not (home / "elsewhere/.ssh/authorized_keys").exists()

    def test_what_was_in_authorized_keys_stays_as_it_was(self, rack: OwnNodes) -> None:
        path = rack.homes[1] / ".ssh" / "authorized_keys"
        was = path.read_text()
        try:
            path.write_text(was + "# a remark\nssh-ed25519 AAAA someone@else client_ed25519 no newline")
            with RelayEngine(rack.settings()) as engine:
                list(engine.collect({node: [ECHO] for node in rack.nodes}))
                assert rack.keys(1).count("ndctl-relay-") == 1
            assert path.read_text() == was + "# a remark\nssh-ed25519 AAAA someone@else client_ed25519 no newline\n"
        finally:
            path.write_text(was)

    def test_a_peer_that_is_gone_at_the_end_is_told_of(self, tmp_path: Path) -> None:
        with started(tmp_path, 4) as rack:
            with RelayEngine(rack.settings(retries=0)) as engine:
                list(engine.collect({node: [ECHO] for node in rack.nodes}))
                wait_until(lambda: not [name for name in relay_folders() if name.startswith("ndctl-relay.")])
                rack.servers[2].stop()
            assert any("rack01-n03" in text and "60 minutes" in text for text in engine.relay_remarks)
            assert [at for at in range(4) if rack.keys(at)] == [2]

    def test_a_head_that_is_gone_at_the_end_leaves_no_line_on_its_peers(self, tmp_path: Path) -> None:
        with started(tmp_path, 4) as rack:
            with RelayEngine(rack.settings(retries=0)) as engine:
                list(engine.collect({node: [ECHO] for node in rack.nodes}))
                wait_until(lambda: not [name for name in relay_folders() if name.startswith("ndctl-relay.")])
                rack.servers[0].stop()
            assert [at for at in range(4) if rack.keys(at)] == []
            for path in Path("/dev/shm").glob("ndctl-key.*"):
                for part in path.iterdir():
                    part.unlink()
                path.rmdir()


class TestFaultsOfPeers:
    """Each is the Outcome that a direct visit gives, and costs nobody else."""

    def compare(self, rack: OwnNodes, bad: Node, *commands: Command, **changes: object) -> NodeAnswer:
        wanted = {node: list(commands or (ECHO,)) if node.name == bad.name else [ECHO] for node in rack.nodes}
        requests = {bad if node.name == bad.name else node: asked for node, asked in wanted.items()}
        settings = rack.settings(**{"retries": 0, **changes})
        with Engine(settings) as plain:
            direct = by_node(plain.collect(requests))
        with RelayEngine(settings, single=True) as engine:
            relayed = by_node(engine.collect(requests))
        for node in rack.nodes:
            if node.name != bad.name:
                assert relayed[node.name].outcome.ok, relayed[node.name].outcome
        one, other = relayed[bad.name], direct[bad.name]
        assert (one.outcome.kind, one.outcome.detail) == (other.outcome.kind, other.outcome.detail)
        assert set(one.results) == set(other.results)
        return one

    def test_refused(self, rack: OwnNodes) -> None:
        bad = dataclasses.replace(rack.nodes[2], port=openssh.free_port())
        known = rack.known_hosts.read_text()
        try:
            keys = parse_public_keys(rack.servers[2].host_public_key)
            write_entries(rack.known_hosts, {(bad.address, bad.port): keys})
            answer = self.compare(rack, bad)
        finally:
            rack.known_hosts.write_text(known)
        assert answer.outcome.kind is OutcomeKind.REFUSED

    def test_host_key_changed(self, rack: OwnNodes, tmp_path: Path) -> None:
        other = openssh.make_key(tmp_path / "other")
        known = rack.known_hosts.read_text()
        try:
            keys = parse_public_keys(other.with_suffix(".pub").read_text())
            write_entries(rack.known_hosts, {(rack.nodes[2].address, rack.nodes[2].port): keys})
            answer = self.compare(rack, rack.nodes[2])
        finally:
            rack.known_hosts.write_text(known)
        assert answer.outcome.kind is OutcomeKind.HOST_KEY_CHANGED

    def test_host_key_unknown(self, rack: OwnNodes) -> None:
        known = rack.known_hosts.read_text()
        try:
            write_entries(rack.known_hosts, {(rack.nodes[2].address, rack.nodes[2].port): []})
            answer = self.compare(rack, rack.nodes[2])
        finally:
            rack.known_hosts.write_text(known)
        assert answer.outcome.kind is OutcomeKind.HOST_KEY_UNKNOWN

    def test_login_refused(self, rack: OwnNodes) -> None:
        path = rack.homes[2] / ".ssh" / "authorized_keys"
        was = path.read_text()
        try:
            path.write_text("")
            answer = self.compare(rack, rack.nodes[2])
        finally:
            path.write_text(was)
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED

    def test_no_address(self, rack: OwnNodes) -> None:
        answer = self.compare(rack, dataclasses.replace(rack.nodes[2], address=""))
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE

    def test_sshd_killed_in_mid_command(self, rack: OwnNodes) -> None:
        dies = Command("dies", _FIND_SSHD + "kill -9 $p; sleep 5", timeout_s=10)
        answer = self.compare(rack, rack.nodes[2], ECHO, dies)
        assert answer.outcome.kind is OutcomeKind.CONNECTION_LOST
        assert answer.results["echo"].stdout == "here\n", "what came before the loss is kept"

    def test_sshd_frozen_in_mid_command(self, rack: OwnNodes) -> None:
        freezes = Command("freezes", _FIND_SSHD + "kill -STOP $p", timeout_s=1)
        answer = self.compare(rack, rack.nodes[2], ECHO, freezes, command_grace_s=5.0)
        assert answer.outcome.kind is OutcomeKind.TIMED_OUT
        assert answer.results["echo"].stdout == "here\n"

    def test_four_that_hang_hold_up_none_of_the_others(self, tmp_path: Path) -> None:
        with started(tmp_path, 7) as rack:
            order: list[str] = []
            hang = Command("hang", "sleep 40", timeout_s=25)
            requests = {node: [hang] if 1 <= at <= 4 else [ECHO] for at, node in enumerate(rack.nodes)}
            with RelayEngine(rack.settings(), single=True) as engine:
                for answer in engine.collect(requests):
                    order.append(answer.node.name)
                    assert answer.outcome.ok
            assert set(order[:3]) == {rack.nodes[0].name, rack.nodes[5].name, rack.nodes[6].name}

    def test_no_shell(self, tmp_path: Path) -> None:
        with started(tmp_path, 4) as rack:
            rack.servers[3].stop()
            closed = openssh.start(
                rack.servers[3].folder / "closed",
                nodes=[rack.nodes[3].address],
                port=rack.servers[3].port,
                keys=rack.servers[3],
                force_command="echo This account is currently not available.; exit 1",
            )
            with closed:
                answer = self.compare(rack, rack.nodes[3])
        assert answer.outcome.kind is OutcomeKind.CONNECTION_LOST
        assert "exit code 1 before the script began: This account" in answer.outcome.detail

    def test_a_flood_before_the_script_is_cut_off(self, tmp_path: Path) -> None:
        """Asked directly, such a node is read past until its time is up; the head's memory is no place for that."""
        with started(tmp_path, 4) as rack:
            rack.servers[3].stop()
            flooding = openssh.start(
                rack.servers[3].folder / "flooding",
                nodes=[rack.nodes[3].address],
                port=rack.servers[3].port,
                keys=rack.servers[3],
                force_command="exec cat /dev/zero",
            )
            with flooding, RelayEngine(rack.settings(), single=True) as engine:
                answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
        assert [answers[node.name].outcome.ok for node in rack.nodes] == [True, True, True, False]
        assert answers[rack.nodes[3].name].outcome.kind is OutcomeKind.CONNECTION_LOST


class TestFaultsOfHeads:
    def test_an_unreachable_head_is_answered_for_and_replaced(self, tmp_path: Path) -> None:
        with started(tmp_path, 4) as rack:
            rack.servers[0].stop()
            with RelayEngine(rack.settings(retries=0), single=True) as engine:
                answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
            assert answers[rack.nodes[0].name].outcome.kind is OutcomeKind.REFUSED
            assert all(answers[node.name].outcome.ok for node in rack.nodes[1:])
            assert any("another node takes its place" in text for text in engine.relay_remarks)
            assert [logins(rack, at) for at in (1, 2, 3)] == [1, 1, 1]

    def test_after_two_heads_the_rest_is_asked_directly(self, tmp_path: Path) -> None:
        with started(tmp_path, 5) as rack:
            rack.servers[0].stop()
            rack.servers[1].stop()
            with RelayEngine(rack.settings(retries=0), single=True) as engine:
                answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
            kinds = [answers[node.name].outcome.kind for node in rack.nodes]
            assert kinds == [OutcomeKind.REFUSED] * 2 + [OutcomeKind.OK] * 3
            assert any("its nodes are asked directly" in text for text in engine.relay_remarks)

    def test_a_head_that_forbids_agents_has_its_rack_asked_directly(self, tmp_path: Path) -> None:
        with started(tmp_path, 3, options=["AllowAgentForwarding no"]) as rack:
            with RelayEngine(rack.settings()) as engine:
                for _ in range(2):
                    answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
                    assert all(answer.outcome.ok for answer in answers.values())
            (remark,) = engine.relay_remarks
            assert "its sshd forbids agent forwarding" in remark
            assert logins(rack, 0) == 3, "the second time nobody asked it to be a head"

    def test_a_head_that_is_let_in_nowhere_is_not_tried_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An ssh before 8.9 does not bind its agent connection, and gets no signature."""
        monkeypatch.setattr(LoginAgent, "sign", lambda *unused: None)
        with started(tmp_path, 3) as rack:
            with RelayEngine(rack.settings(), single=True) as engine:
                for _ in range(2):
                    answers = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
                    assert all(answer.outcome.ok for answer in answers.values())
            assert len(engine.relay_remarks) == 2, "of the first time"
            assert logins(rack, 0) == 2

    def test_a_head_that_dies_is_an_answer_and_its_peers_are_asked_otherwise(self, tmp_path: Path) -> None:
        with started(tmp_path, 4) as rack:
            dies = Command("dies", _FIND_SSHD + "kill -9 $p; sleep 5", timeout_s=10)
            slow = Command("slow", "sleep 3; echo here")
            requests = {node: [dies] if at == 0 else [slow] for at, node in enumerate(rack.nodes)}
            with RelayEngine(rack.settings(retries=0), single=True) as engine:
                answers = by_node(engine.collect(requests))
            assert answers[rack.nodes[0].name].outcome.kind is OutcomeKind.CONNECTION_LOST
            assert [answers[node.name].results["slow"].stdout for node in rack.nodes[1:]] == ["here\n"] * 3
            assert any("was lost on the way" in text for text in engine.relay_remarks)

    def test_a_frozen_head_is_found_out_before_its_peers_are_blamed(self, tmp_path: Path) -> None:
        with started(tmp_path, 4) as rack:
            freezes = Command("freezes", _FIND_SSHD + "kill -STOP $p", timeout_s=1)
            slow = Command("slow", "sleep 2; echo here", timeout_s=5)
            requests = {node: [freezes] if at == 0 else [slow] for at, node in enumerate(rack.nodes)}
            with RelayEngine(rack.settings(retries=0, command_grace_s=5.0), single=True) as engine:
                answers = by_node(engine.collect(requests))
            assert answers[rack.nodes[0].name].outcome.kind is OutcomeKind.TIMED_OUT
            assert [answers[node.name].results["slow"].stdout for node in rack.nodes[1:]] == ["here\n"] * 3


class TestStopping:
    def test_a_stop_interrupts_and_leaves_nothing(self, rack: OwnNodes, tmp_path: Path) -> None:
        fifo = tmp_path / "begun"
        os.mkfifo(fifo)
        stays = [Command("given", "echo given", order=-1), Command("stays", f"echo x >{fifo}; sleep 30", timeout_s=40)]
        requests = {node: stays if at == 1 else [ECHO] for at, node in enumerate(rack.nodes)}
        with RelayEngine(rack.settings()) as engine:

            def stop_when_begun() -> None:
                fifo.read_text()
                wait_until(lambda: bool(answers))
                engine.stop(grace_s=2.0)

            answers: list[NodeAnswer] = []
            stopper = threading.Thread(target=stop_when_begun, daemon=True)
            stopper.start()
            for answer in engine.collect(requests):
                answers.append(answer)
            stopper.join(10)
            cut = by_node(answers)[rack.nodes[1].name]
            assert cut.outcome.kind is OutcomeKind.INTERRUPTED
            assert len(answers) == NODES
            late = by_node(engine.collect({node: [ECHO] for node in rack.nodes}))
            assert {answer.outcome.kind for answer in late.values()} == {OutcomeKind.INTERRUPTED}

    def test_the_time_for_the_whole_run_ends_it(self, rack: OwnNodes) -> None:
        stays = [Command("given", "echo given", order=-1), Command("stays", "sleep 30", timeout_s=40)]
        requests = {node: stays if at in (0, 1) else [ECHO] for at, node in enumerate(rack.nodes)}
        with RelayEngine(rack.settings(run_deadline_s=12.0), single=True) as engine:
            answers = by_node(engine.collect(requests))
            assert all(answer.outcome.ok for answer in engine.ask({rack.nodes[0]: [ECHO]}).values())
        for at in (0, 1):
            late = answers[rack.nodes[at].name]
            assert late.outcome.kind is OutcomeKind.TIMED_OUT
            assert "the time for the whole run was up" in late.outcome.detail
            assert late.results["given"].stdout == "given\n"
        assert all(answers[node.name].outcome.ok for node in rack.nodes[2:])

    def test_a_killed_client_leaves_no_key_on_the_head(self, rack: OwnNodes, tmp_path: Path) -> None:
        """SIGKILL in mid-pass: the head sees its stdin end, ends every ssh, and removes key and directory."""
        fifo = tmp_path / "begun"
        os.mkfifo(fifo)
        before = relay_folders()
        client = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _CLIENT,
                str(rack.servers[0].client_key),
                str(rack.known_hosts),
                rack.servers[0].user,
            ]
            + [f"{node.name}={node.address}={node.port}" for node in rack.nodes]
            + [str(fifo)],
            cwd=Path(__file__).parents[2],
        )
        try:
            fifo.read_text()
            assert any(name.startswith("ndctl-key.") for name in relay_folders() - before)
        finally:
            client.send_signal(signal.SIGKILL)
            client.wait(10)
        wait_until(lambda: relay_folders() <= before)
        wait_until(lambda: not has_argument("ndctl-admits-"))
        # The lines are still there; without the key, and after an hour, they let nobody in.
        left = [rack.keys(at) for at in range(1, NODES)]
        assert any(left) and all("expiry-time=" in line for lines in left for line in lines.splitlines())
        # The next run takes them out, and its own at its end.
        with RelayEngine(rack.settings()) as engine:
            list(engine.collect({node: [ECHO] for node in rack.nodes}))
            now = [rack.keys(at) for at in range(1, NODES)]
            assert [len(lines.splitlines()) for lines in now] == [1] * (NODES - 1) and not set(now) & set(left)
        assert not any(rack.keys(at) for at in range(NODES))

    def test_a_key_that_a_client_left_on_the_head_goes_when_no_peer_admits_it_any_more(self, rack: OwnNodes) -> None:
        """Killed between two askings, when no script runs on the head that would notice."""
        old, young = (Path(f"/dev/shm/ndctl-key.{at * 24}") for at in "ab")
        try:
            for one in (old, young):
                one.mkdir(mode=0o700)
                (one / "key").write_text("private")
            long_ago = time.time() - 66 * 60
            os.utime(old, (long_ago, long_ago))
            with RelayEngine(rack.settings()) as engine:
                list(engine.collect({node: [ECHO] for node in rack.nodes}))
            assert not old.exists() and young.exists()
        finally:
            shutil.rmtree(old, ignore_errors=True)
            shutil.rmtree(young, ignore_errors=True)


_CLIENT = """
import sys
from pathlib import Path
from ndctl.model.answers import Command
from ndctl.model.places import Node
from ndctl.ssh.relay import RelayEngine
from ndctl.ssh.relay_agent import LoginAgent
from ndctl.ssh.settings import SshSettings
key, known, user, *nodes, fifo = sys.argv[1:]
nodes = [Node(name, "rack01", address=address, port=int(port)) for name, address, port in (n.split("=") for n in nodes)]
settings = SshSettings(user=user, private_keys=(Path(key),), agent=False, known_hosts=(Path(known),))
stays = [Command("stays", "sleep 5", timeout_s=40)]
last = [Command("last", f"echo x >{fifo}; sleep 5", timeout_s=40)]
list(RelayEngine(settings).collect({node: last if node is nodes[-1] else stays for node in nodes}))
"""


def _fingerprint(blob: str, folder: Path) -> str:
    path = folder / "made.pub"
    path.write_text(f"ssh-ed25519 {blob}\n")
    printed = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(path)], check=True, capture_output=True, text=True, timeout=30
    )
    return printed.stdout.split()[1]
