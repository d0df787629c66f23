"""Every way a node can fail to answer, each its own Outcome, within its deadline and at no other node's cost."""

from __future__ import annotations

import base64
import dataclasses
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ndctl.model.answers import Command, NodeAnswer, OutcomeKind
from ndctl.model.places import Node
from ndctl.ssh.engine import Engine
from ndctl.ssh.known_hosts import HostKey, parse_public_keys, write_entries
from tests.ssh import sshd as openssh
from tests.ssh.conftest import CraftedServer

ECHO = Command("echo", "echo here")
# The shell's way up to the sshd that serves this very connection.
_FIND_SSHD = 'p=$PPID; while [ "$(cat /proc/$p/comm)" != sshd ]; do p=$(cut -d" " -f4 /proc/$p/stat); done; '


def ask_beside_a_healthy_one(server: openssh.Sshd, bad: Node, *commands: Command, **changes: object) -> NodeAnswer:
    """The bad node's answer, after seeing that a healthy node asked at the same time has given its own."""
    healthy = dataclasses.replace(server.nodes[0], name="rack01-n99")
    with Engine(server.settings(**{"retries": 0, **changes})) as engine:
        answers = engine.ask({bad: commands or (ECHO,), healthy: (ECHO,)})
    assert answers[healthy].outcome.ok, answers[healthy].outcome
    assert answers[healthy].results["echo"].stdout == "here\n"
    return answers[bad]


def node_at(port: int, address: str = "127.0.0.1") -> Node:
    return Node("rack09-n01", "rack09", address=address, port=port)


def trusting(server: openssh.Sshd, folder: Path, entries: dict[tuple[str, int], list[HostKey]]) -> Path:
    """A copy of the server's known_hosts with some entries replaced."""
    path = folder / "known_hosts"
    path.write_text(server.known_hosts.read_text())
    write_entries(path, entries)
    return path


class TestConnecting:
    def test_refused(self, server: openssh.Sshd) -> None:
        answer = ask_beside_a_healthy_one(server, node_at(openssh.free_port()))
        assert answer.outcome.kind is OutcomeKind.REFUSED
        assert "refused" in answer.outcome.detail

    def test_syn_never_answered(self, server: openssh.Sshd) -> None:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        queued = []
        try:
            for _ in range(4):  # a full queue of connections nobody accepts: the kernel drops further SYNs
                caller = socket.socket()
                caller.setblocking(False)
                caller.connect_ex(("127.0.0.1", port))
                queued.append(caller)
            answer = ask_beside_a_healthy_one(server, node_at(port), connect_s=1.0)
        finally:
            for one in [*queued, listener]:
                one.close()
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE
        assert "did not answer within 1 s" in answer.outcome.detail
        assert answer.outcome.seconds < 20

    def test_no_banner(self, server: openssh.Sshd, craft: Callable[..., CraftedServer]) -> None:
        answer = ask_beside_a_healthy_one(server, node_at(craft().port), banner_s=10.0)
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE
        assert "no SSH banner within 10 s" in answer.outcome.detail
        assert 9.5 <= answer.outcome.seconds < 30

    def test_junk_instead_of_a_banner(self, server: openssh.Sshd, craft: Callable[..., CraftedServer]) -> None:
        web = craft(b"HTTP/1.1 400 Bad Request\r\n\r\n", hang_up=True)
        answer = ask_beside_a_healthy_one(server, node_at(web.port))
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE
        assert "does not answer as an SSH server" in answer.outcome.detail

    def test_endless_junk(self, server: openssh.Sshd, craft: Callable[..., CraftedServer]) -> None:
        answer = ask_beside_a_healthy_one(server, node_at(craft(b"junk\r\n" * 500).port), banner_s=10.0)
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE

    def test_banner_then_silence(self, server: openssh.Sshd, craft: Callable[..., CraftedServer]) -> None:
        silent = craft(b"SSH-2.0-Silent\r\n")
        answer = ask_beside_a_healthy_one(server, node_at(silent.port), banner_s=10.0)
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE
        assert "sent its banner and then nothing more within 10 s" in answer.outcome.detail

    def test_name_that_does_not_resolve(self, server: openssh.Sshd) -> None:
        answer = ask_beside_a_healthy_one(server, node_at(22, "no-such-host.invalid"))
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE

    def test_no_address(self, server: openssh.Sshd) -> None:
        answer = ask_beside_a_healthy_one(server, node_at(22, ""))
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE
        assert "no address" in answer.outcome.detail


class TestLoggingIn:
    def test_wrong_key(self, server: openssh.Sshd, tmp_path: Path) -> None:
        stranger = openssh.make_key(tmp_path / "stranger")
        answer = ask_beside_a_key_holder(server, stranger)
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert f"refused {server.user} with {stranger} (SHA256:" in answer.outcome.detail
        assert "authorized_keys" in answer.outcome.hint

    def test_no_key_at_all(self, server: openssh.Sshd, tmp_path: Path) -> None:
        answer = ask_beside_a_key_holder(server, tmp_path / "missing")
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert "no usable private key" in answer.outcome.detail
        assert "missing cannot be read: No such file" in answer.outcome.detail

    def test_encrypted_key(self, server: openssh.Sshd, tmp_path: Path) -> None:
        answer = ask_beside_a_key_holder(server, openssh.make_key(tmp_path / "locked", passphrase="secret"))
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert "is encrypted" in answer.outcome.detail
        assert "ssh-add" in answer.outcome.detail

    def test_security_key(self, server: openssh.Sshd, tmp_path: Path) -> None:
        # The public half alone, framed as a private key file is: what ssh-keygen -t ed25519-sk leaves has this type.
        kind = b"sk-ssh-ed25519@openssh.com"
        blob = b"openssh-key-v1\0" + len(kind).to_bytes(4, "big") + kind + bytes(64)
        path = tmp_path / "id_sk"
        text = base64.encodebytes(blob).decode()
        path.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{text}-----END OPENSSH PRIVATE KEY-----\n")
        answer = ask_beside_a_key_holder(server, path)
        assert answer.outcome.kind is OutcomeKind.AUTH_FAILED
        assert "security key" in answer.outcome.detail

    def test_second_key_is_tried(self, server: openssh.Sshd, tmp_path: Path) -> None:
        stranger = openssh.make_key(tmp_path / "stranger")
        with Engine(server.settings(private_keys=(stranger, server.client_key))) as engine:
            (answer,) = engine.ask({server.nodes[0]: [ECHO]}).values()
        assert answer.outcome.ok

    def test_unknown_host_key(self, server: openssh.Sshd) -> None:
        answer = ask_beside_a_healthy_one(server, node_at(server.port, "127.1.9.9"))
        assert answer.outcome.kind is OutcomeKind.HOST_KEY_UNKNOWN
        assert fingerprint_by_openssh(server.host_key) in answer.outcome.detail
        assert "ssh-keyscan" in answer.outcome.hint
        assert "127.1.9.9" not in server.known_hosts.read_text(), "a key was added by a connection"

    def test_changed_host_key_of_the_same_type(self, server: openssh.Sshd, tmp_path: Path) -> None:
        other = openssh.make_key(tmp_path / "other")
        answer = ask_where_known(server, tmp_path, other)
        assert answer.outcome.kind is OutcomeKind.HOST_KEY_CHANGED
        assert fingerprint_by_openssh(server.host_key) in answer.outcome.detail
        assert fingerprint_by_openssh(other) in answer.outcome.detail
        assert "learn" in answer.outcome.hint

    def test_changed_host_key_of_another_type(self, server: openssh.Sshd, tmp_path: Path) -> None:
        other = openssh.make_key(tmp_path / "other", "ecdsa")
        answer = ask_where_known(server, tmp_path, other)
        assert answer.outcome.kind is OutcomeKind.HOST_KEY_CHANGED
        assert fingerprint_by_openssh(server.host_key) in answer.outcome.detail
        assert fingerprint_by_openssh(other) in answer.outcome.detail

    def test_revoked_host_key(self, server: openssh.Sshd, tmp_path: Path) -> None:
        known = tmp_path / "known_hosts"
        known.write_text(
            server.known_hosts.read_text() + f"@revoked [127.1.1.2]:{server.port} {server.host_public_key}\n"
        )
        answer = ask_beside_a_healthy_one(server, server.nodes[1], known_hosts=(known,))
        assert answer.outcome.kind is OutcomeKind.HOST_KEY_CHANGED
        assert "@revoked" in answer.outcome.detail

    def test_certificate_authority_is_not_taken_for_a_key(self, server: openssh.Sshd, tmp_path: Path) -> None:
        known = tmp_path / "known_hosts"
        known.write_text(server.known_hosts.read_text() + f"@cert-authority [127.1.9.*]:* {server.host_public_key}\n")
        answer = ask_beside_a_healthy_one(server, node_at(server.port, "127.1.9.8"), known_hosts=(known,))
        assert answer.outcome.kind is OutcomeKind.HOST_KEY_UNKNOWN
        assert "host certificates are not supported" in answer.outcome.detail

    def test_no_shell(self, start_sshd: Callable[..., openssh.Sshd]) -> None:
        closed = start_sshd(force_command="echo This account is currently not available.; exit 1")
        with Engine(closed.settings()) as engine:
            (answer,) = engine.ask({closed.nodes[0]: [ECHO]}).values()
        assert answer.outcome.kind is OutcomeKind.CONNECTION_LOST
        assert "exit code 1 before the script began: This account is currently not available." in answer.outcome.detail
        assert not answer.results


class TestCommands:
    def test_sshd_killed_in_mid_command(self, server: openssh.Sshd) -> None:
        answer = ask_beside_a_healthy_one(
            server, server.nodes[1], ECHO, Command("dies", _FIND_SSHD + "kill -9 $p; sleep 5", timeout_s=10)
        )
        assert answer.outcome.kind is OutcomeKind.CONNECTION_LOST
        assert "during dies" in answer.outcome.detail
        assert answer.results["echo"].stdout == "here\n", "what came before the loss is kept"
        assert "dies" not in answer.results

    def test_sshd_frozen_in_mid_command(self, server: openssh.Sshd) -> None:
        answer = ask_beside_a_healthy_one(
            server,
            server.nodes[1],
            ECHO,
            Command("freezes", _FIND_SSHD + "kill -STOP $p", timeout_s=1),
            command_grace_s=5.0,
        )
        assert answer.outcome.kind is OutcomeKind.TIMED_OUT
        assert "went silent during freezes" in answer.outcome.detail
        assert answer.results["echo"].stdout == "here\n"
        assert answer.outcome.seconds < 40

    def test_hanging_command_costs_its_own_answer_only(self, server: openssh.Sshd) -> None:
        hang = Command("hang", "echo before; trap '' TERM; while :; do sleep 1; done", timeout_s=1)
        answer = ask_beside_a_healthy_one(server, server.nodes[1], hang, ECHO)
        assert answer.outcome.ok
        result = answer.results["hang"]
        assert result.timed_out
        assert result.exit_code is None
        assert result.stdout == "before\n"
        assert answer.results["echo"].exit_code == 0

    def test_one_byte_per_second(self, server: openssh.Sshd) -> None:
        drip = Command("drip", "while :; do printf x; sleep 1; done", timeout_s=2)
        answer = ask_beside_a_healthy_one(server, server.nodes[1], drip, ECHO)
        assert answer.outcome.ok
        assert answer.results["drip"].timed_out
        assert answer.results["drip"].stdout.startswith("x")
        assert answer.results["echo"].exit_code == 0

    def test_dripping_connection(self, server: openssh.Sshd, start_sshd: Callable[..., openssh.Sshd]) -> None:
        """A node that keeps sending but never begins must not live by its drip."""
        dripping = start_sshd(force_command="while :; do printf x; sleep 0.2; done")
        with Engine(dripping.settings(command_grace_s=1.0, channel_s=2.0)) as engine:
            (answer,) = engine.ask({dripping.nodes[0]: [ECHO]}).values()
        assert answer.outcome.kind is OutcomeKind.TIMED_OUT
        assert "before the script began" in answer.outcome.detail

    def test_stdout_closed_but_still_running(self, server: openssh.Sshd) -> None:
        closed = Command("closed", "exec >&- 2>&-; sleep 30", timeout_s=1)
        answer = ask_beside_a_healthy_one(server, server.nodes[1], closed, ECHO)
        assert answer.outcome.ok
        assert answer.results["closed"].timed_out
        assert answer.results["echo"].exit_code == 0

    def test_background_child_holds_stdout(self, server: openssh.Sshd) -> None:
        parent = Command("parent", "setsid sleep 60 & echo $!", timeout_s=20)
        answer = ask_beside_a_healthy_one(server, server.nodes[1], parent, ECHO)
        assert answer.outcome.ok
        result = answer.results["parent"]
        os.kill(int(result.stdout), signal.SIGTERM)  # it is still there: nobody waited for it
        assert (result.exit_code, result.timed_out) == (0, False)
        assert answer.results["echo"].exit_code == 0

    def test_stderr_flood(self, server: openssh.Sshd) -> None:
        flood = Command("flood", "head -c 5000000 /dev/zero | tr '\\0' e >&2; echo fine", cap_bytes=100_000)
        answer = ask_beside_a_healthy_one(server, server.nodes[1], flood, ECHO)
        assert answer.outcome.ok
        result = answer.results["flood"]
        assert result.stdout == "fine\n"
        assert result.stderr == "e" * 100_000
        assert result.truncated
        assert answer.results["echo"].exit_code == 0

    def test_noise_before_the_script(self, start_sshd: Callable[..., openssh.Sshd]) -> None:
        """Start-up files that print megabytes on both streams are read past, not kept."""
        noisy = start_sshd(
            force_command='head -c 5000000 /dev/zero >&2; head -c 3000000 /dev/zero; eval "$SSH_ORIGINAL_COMMAND"'
        )
        with Engine(noisy.settings()) as engine:
            (answer,) = engine.ask({noisy.nodes[0]: [ECHO]}).values()
        assert answer.outcome.ok
        assert answer.results["echo"].stdout == "here\n"

    def test_fifty_megabytes(self, server: openssh.Sshd) -> None:
        big = Command("big", "head -c 50000000 /dev/zero | tr '\\0' x", cap_bytes=1_000_000, timeout_s=60)
        answer = ask_beside_a_healthy_one(server, server.nodes[1], big, ECHO)
        assert answer.outcome.ok
        result = answer.results["big"]
        assert (len(result.stdout), result.truncated, result.exit_code) == (1_000_000, True, 0)
        assert answer.results["echo"].exit_code == 0

    @pytest.mark.parametrize(
        ("shell", "code"),
        [("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143), ("no-such-tool", 127), ("exit 124", 124)],
    )
    def test_exit_codes_are_the_commands_own(self, server: openssh.Sshd, shell: str, code: int) -> None:
        answer = ask_beside_a_healthy_one(server, server.nodes[1], Command("ends", shell, timeout_s=15), ECHO)
        assert answer.outcome.ok
        result = answer.results["ends"]
        assert (result.exit_code, result.timed_out) == (code, False)
        assert result.missing_tool is (code == 127)
        assert answer.results["echo"].exit_code == 0


def ask_beside_a_key_holder(server: openssh.Sshd, key: Path) -> NodeAnswer:
    """The answer of a node asked with this key only."""
    with Engine(server.settings(private_keys=(key,), retries=0)) as engine:
        (answer,) = engine.ask({server.nodes[1]: [ECHO]}).values()
    return answer


def ask_where_known(server: openssh.Sshd, folder: Path, other: Path) -> NodeAnswer:
    """The answer of a node whose known key is another one than it shows."""
    bad = server.nodes[1]
    keys = parse_public_keys(other.with_suffix(".pub").read_text())
    known = trusting(server, folder, {(bad.address, bad.port): keys})
    return ask_beside_a_healthy_one(server, bad, known_hosts=(known,))


def fingerprint_by_openssh(key: Path) -> str:
    """What ssh-keygen itself says."""
    printed = subprocess.run(
        ["ssh-keygen", "-l", "-f", f"{key}.pub"], check=True, capture_output=True, text=True, timeout=30
    ).stdout
    return printed.split()[1]
