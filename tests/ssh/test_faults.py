"""Every way a node can fail to answer, each its own Outcome, within its deadline and at no other node's cost."""

from __future__ import annotations

import base64
import dataclasses
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ndctl.model.answers import Command, CommandResult, NodeAnswer, OutcomeKind
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


# --- the table ---------------------------------------------------------------------------------------------------


class Stage:
    """What a row of the table has at hand to make a node fail."""

    def __init__(self, server: openssh.Sshd, folder: Path, craft: Callable[..., CraftedServer], stack: ExitStack):
        self.server = server
        self.folder = folder
        self.craft = craft
        self.stack = stack

    @property
    def bad(self) -> Node:
        """A node of the real server."""
        return self.server.nodes[1]


@dataclass(frozen=True)
class Trial:
    """The failing node, what it is asked, and settings of the engine that differ from the server's own."""

    node: Node
    commands: tuple[Command, ...] = (ECHO,)
    changes: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """How one fault of the table is made, and what must come of it.

    says:    words of the outcome's detail
    within:  the deadline that ends it, seconds; 0 where the node's own answer does
    results: of the commands, by id: what they must have given; an id that maps to None has no answer
    runs:    the commands may have begun, so no second attempt is made
    """

    arrange: Callable[[Stage], Trial]
    kind: OutcomeKind
    says: str = ""
    within: float = 0.0
    results: dict[str, Callable[[CommandResult], bool] | None] = field(default_factory=dict)
    runs: bool = False


def silent_backlog(stage: Stage) -> Trial:
    """A full queue of connections that nobody accepts: the kernel drops further SYNs."""
    listener = stage.stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = listener.getsockname()[1]
    for _ in range(4):
        caller = stage.stack.enter_context(socket.socket())
        caller.setblocking(False)
        caller.connect_ex(("127.0.0.1", port))
    return Trial(node_at(port), changes={"connect_s": 1.0})


def with_key(stage: Stage, key: Path) -> Trial:
    """ssh_config gives this node, and no other, this key."""
    config = stage.folder / "config"
    config.write_text(f"Host {stage.bad.address}\n  IdentityFile {key}\n")
    return Trial(stage.bad, changes={"user_config": config})


def known_by(stage: Stage, key: Path) -> Trial:
    keys = parse_public_keys(key.with_suffix(".pub").read_text())
    known = trusting(stage.server, stage.folder, {(stage.bad.address, stage.bad.port): keys})
    return Trial(stage.bad, changes={"known_hosts": (known,)})


def running(shell: str, **options: Any) -> Callable[[Stage], Trial]:
    """One command that behaves badly, and a harmless one after it."""
    return lambda stage: Trial(stage.bad, (Command("bad", shell, **options), ECHO))


def echoed(result: CommandResult) -> bool:
    return (result.stdout, result.exit_code, result.timed_out) == ("here\n", 0, False)


def ended_with(code: int) -> Callable[[CommandResult], bool]:
    return lambda result: (result.exit_code, result.timed_out) == (code, False)


def timed_out(result: CommandResult) -> bool:
    return result.timed_out and result.exit_code is None


def held_by_a_child(result: CommandResult) -> bool:
    os.kill(int(result.stdout), signal.SIGTERM)  # it is still there: nobody waited for it
    return (result.exit_code, result.timed_out) == (0, False)


UNREACHABLE, OK = OutcomeKind.UNREACHABLE, OutcomeKind.OK
TABLE = {
    "refused": Row(lambda stage: Trial(node_at(openssh.free_port())), OutcomeKind.REFUSED, "refused the connection"),
    "SYN never answered": Row(silent_backlog, UNREACHABLE, "did not answer within 1 s", within=1),
    "accepts but no banner": Row(
        lambda stage: Trial(node_at(stage.craft().port), changes={"banner_s": 8.0}),
        UNREACHABLE,
        "sends no SSH banner within 8 s",
        within=8,
    ),
    "junk before banner": Row(
        lambda stage: Trial(node_at(stage.craft(b"HTTP/1.1 400 Bad Request\r\n\r\n", hang_up=True).port)),
        UNREACHABLE,
        "does not answer as an SSH server",
    ),
    "banner then silence": Row(
        lambda stage: Trial(node_at(stage.craft(b"SSH-2.0-OpenSSH_9.6\r\n").port), changes={"banner_s": 8.0}),
        UNREACHABLE,
        "sent its banner and then nothing more within 8 s",
        within=8,
    ),
    "wrong user key": Row(
        lambda stage: with_key(stage, openssh.make_key(stage.folder / "stranger")),
        OutcomeKind.AUTH_FAILED,
        "stranger (SHA256:",
    ),
    "no key at all": Row(
        lambda stage: with_key(stage, stage.folder / "missing"),
        OutcomeKind.AUTH_FAILED,
        "missing cannot be read: No such file",
    ),
    "unknown host key": Row(
        lambda stage: Trial(node_at(stage.server.port, "127.1.9.9")),
        OutcomeKind.HOST_KEY_UNKNOWN,
        "which no known_hosts file has",
    ),
    "changed host key": Row(
        lambda stage: known_by(stage, openssh.make_key(stage.folder / "other")),
        OutcomeKind.HOST_KEY_CHANGED,
        "; known is ssh-ed25519 SHA256:",
    ),
    "sshd killed mid-command": Row(
        lambda stage: Trial(
            stage.bad,
            (
                ECHO,
                Command("bad", f"echo x >>{stage.folder}/runs; {_FIND_SSHD} kill -9 $p; sleep 5", timeout_s=10),
            ),
        ),
        OutcomeKind.CONNECTION_LOST,
        "broke during bad; 1 of 2 commands answered",
        results={"echo": echoed, "bad": None},
        runs=True,
    ),
    "sshd frozen mid-command": Row(
        lambda stage: Trial(
            stage.bad,
            (
                ECHO,
                Command("bad", f"echo x >>{stage.folder}/runs; {_FIND_SSHD} kill -STOP $p", timeout_s=1),
            ),
            {"command_grace_s": 8.0},
        ),
        OutcomeKind.TIMED_OUT,
        "went silent during bad; 1 of 2 commands answered",
        within=1 + 2 + 8,
        results={"echo": echoed, "bad": None},
        runs=True,
    ),
    "command hangs": Row(
        running("echo before; trap '' TERM; while :; do sleep 1; done", timeout_s=1),
        OK,
        results={"bad": lambda result: timed_out(result) and result.stdout == "before\n", "echo": echoed},
    ),
    "one byte per second": Row(
        running("while :; do printf x; sleep 1; done", timeout_s=2),
        OK,
        results={"bad": lambda result: timed_out(result) and result.stdout.startswith("x"), "echo": echoed},
    ),
    "stdout closed but still running": Row(
        running("exec >&- 2>&-; sleep 30", timeout_s=1), OK, results={"bad": timed_out, "echo": echoed}
    ),
    "background child holds stdout": Row(
        running("setsid sleep 60 & echo $!", timeout_s=20), OK, results={"bad": held_by_a_child, "echo": echoed}
    ),
    "stderr flood": Row(
        running("head -c 5000000 /dev/zero | tr '\\0' e >&2; echo fine", cap_bytes=100_000),
        OK,
        results={
            "bad": lambda result: (result.stdout, result.stderr, result.truncated) == ("fine\n", "e" * 100_000, True),
            "echo": echoed,
        },
    ),
    "50 MB output": Row(
        running("head -c 50000000 /dev/zero | tr '\\0' x", cap_bytes=1_000_000, timeout_s=60),
        OK,
        results={
            "bad": lambda result: (len(result.stdout), result.truncated, result.exit_code) == (1_000_000, True, 0),
            "echo": echoed,
        },
    ),
    "exit 255": Row(running("exit 255", timeout_s=15), OK, results={"bad": ended_with(255), "echo": echoed}),
    "killed by signal": Row(running("kill -9 $$", timeout_s=15), OK, results={"bad": ended_with(137), "echo": echoed}),
    "command not found": Row(
        running("no-such-tool", timeout_s=15),
        OK,
        results={"bad": lambda result: ended_with(127)(result) and result.missing_tool, "echo": echoed},
    ),
}


def test_the_table_is_whole() -> None:
    assert len(TABLE) == 20
    assert {row.kind for row in TABLE.values()} == set(OutcomeKind) - {OutcomeKind.INTERRUPTED}


@pytest.mark.parametrize("fault", TABLE)
def test_fault(server: openssh.Sshd, tmp_path: Path, craft: Callable[..., CraftedServer], fault: str) -> None:
    """Its outcome, within its deadline; a healthy node asked at the same time is not held up."""
    row = TABLE[fault]
    healthy = dataclasses.replace(server.nodes[0], name="rack01-n99")
    with ExitStack() as stack:
        trial = row.arrange(Stage(server, tmp_path, craft, stack))
        # Busy cores may be slow to begin a script; no row is about that deadline.
        settings = server.settings(**{"retries": 3 if row.runs else 0, "channel_s": 120.0, **trial.changes})
        with Engine(settings) as engine:
            answers = list(engine.collect({trial.node: trial.commands, healthy: (ECHO,)}))
    bad, good = (next(one for one in answers if one.node is node) for node in (trial.node, healthy))
    assert good.outcome.ok, good.outcome
    assert echoed(good.results["echo"])
    if row.within > 5:
        assert answers[0] is good, "it had to wait"
    assert bad.outcome.kind is row.kind, bad.outcome
    assert row.says in bad.outcome.detail
    assert bad.outcome.hint or row.kind is OK, "it is not said what to look at"
    assert row.within <= bad.outcome.seconds + 0.1
    assert bad.outcome.seconds < row.within + 30, "its deadline did not end it"
    assert set(bad.results) == {name for name, wanted in row.results.items() if wanted is not None}
    for name, wanted in row.results.items():
        assert wanted is None or wanted(bad.results[name]), bad.results[name]
    if row.runs:
        assert (tmp_path / "runs").read_text() == "x\n", "what may have begun was begun again"


# --- beside the table --------------------------------------------------------------------------------------------


class TestConnecting:
    def test_endless_junk(self, server: openssh.Sshd, craft: Callable[..., CraftedServer]) -> None:
        answer = ask_beside_a_healthy_one(server, node_at(craft(b"junk\r\n" * 500).port), banner_s=10.0)
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE

    def test_no_address(self, server: openssh.Sshd) -> None:
        answer = ask_beside_a_healthy_one(server, node_at(22, ""))
        assert answer.outcome.kind is OutcomeKind.UNREACHABLE
        assert "no address" in answer.outcome.detail


class TestLoggingIn:
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

    @pytest.mark.parametrize("certified", [False, True], ids=["plain", "with a certificate"])
    def test_an_authority_is_no_key(
        self, server: openssh.Sshd, start_sshd: Callable[..., openssh.Sshd], tmp_path: Path, certified: bool
    ) -> None:
        """Whether the host has a certificate to show decides what is told."""
        authority = openssh.make_key(tmp_path / "authority")
        shown = start_sshd()
        if certified:
            certificate = certify_host(authority, shown)
            shown.stop()
            shown = start_sshd(port=shown.port, keys=shown, options=[f"HostCertificate {certificate}"])
        known = tmp_path / "known_hosts"
        public = Path(f"{authority}.pub").read_text()
        known.write_text(server.known_hosts.read_text() + f"@cert-authority [127.1.9.*]:* {public}")
        keys = (server.client_key, shown.client_key)
        bad = node_at(shown.port, "127.1.9.8")
        answer = ask_beside_a_healthy_one(server, bad, known_hosts=(known,), private_keys=keys)
        assert answer.outcome.kind is OutcomeKind.HOST_KEY_UNKNOWN
        assert fingerprint_by_openssh(shown.host_key) in answer.outcome.detail
        assert ("host certificates are not supported" in answer.outcome.detail) is certified
        assert ("has no host certificate to show" in answer.outcome.detail) is not certified
        assert "add the node's own key" in answer.outcome.hint
        write_entries(known, {(bad.address, bad.port): parse_public_keys(shown.host_public_key)})
        again = ask_beside_a_healthy_one(server, bad, known_hosts=(known,), private_keys=keys)
        assert again.outcome.ok, "its own key is known: the authority does not matter"

    def test_no_shell(self, start_sshd: Callable[..., openssh.Sshd]) -> None:
        closed = start_sshd(force_command="echo This account is currently not available.; exit 1")
        with Engine(closed.settings()) as engine:
            (answer,) = engine.ask({closed.nodes[0]: [ECHO]}).values()
        assert answer.outcome.kind is OutcomeKind.CONNECTION_LOST
        assert "exit code 1 before the script began: This account is currently not available." in answer.outcome.detail
        assert not answer.results


class TestCommands:
    def test_dripping_connection(self, server: openssh.Sshd, start_sshd: Callable[..., openssh.Sshd]) -> None:
        """A node that keeps sending but never begins must not live by its drip."""
        dripping = start_sshd(force_command="while :; do printf x; sleep 0.2; done")
        with Engine(dripping.settings(command_grace_s=1.0, channel_s=2.0)) as engine:
            (answer,) = engine.ask({dripping.nodes[0]: [ECHO]}).values()
        assert answer.outcome.kind is OutcomeKind.TIMED_OUT
        assert "before the script began" in answer.outcome.detail

    def test_noise_before_the_script(self, start_sshd: Callable[..., openssh.Sshd]) -> None:
        """Start-up files that print megabytes on both streams are read past, not kept."""
        noisy = start_sshd(
            force_command='head -c 5000000 /dev/zero >&2; head -c 3000000 /dev/zero; eval "$SSH_ORIGINAL_COMMAND"'
        )
        with Engine(noisy.settings(channel_s=120.0)) as engine:
            (answer,) = engine.ask({noisy.nodes[0]: [ECHO]}).values()
        assert answer.outcome.ok
        assert answer.results["echo"].stdout == "here\n"

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


def certify_host(authority: Path, server: openssh.Sshd) -> Path:
    """A host certificate for the server's key."""
    subprocess.run(
        ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", "-h", f"{server.host_key}.pub"],
        check=True,
        capture_output=True,
        timeout=30,
    )
    return server.host_key.with_name(f"{server.host_key.name}-cert.pub")
