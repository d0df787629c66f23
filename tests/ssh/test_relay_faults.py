"""What OpenSSH's own client says of each fault, triggered here for real, and the Outcome it is read as."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ndctl.model.answers import OutcomeKind
from ndctl.ssh.relay_faults import SshFault, ssh_fault
from ndctl.ssh.relay_loop import SSH_OPTIONS
from tests.ssh import sshd as openssh
from tests.ssh.conftest import CraftedServer
from tests.ssh.test_faults import _FIND_SSHD

TARGET = "the peer"


class Ssh:
    """Runs the program as a head does."""

    def __init__(self, server: openssh.Sshd, folder: Path) -> None:
        self.server = server
        self.folder = folder

    def __call__(
        self,
        command: str = "echo here",
        *,
        port: int = 0,
        host: str = "127.1.1.2",
        key: Path | None = None,
        known: Path | None = None,
        seconds: int = 60,
        extra: tuple[str, ...] = (),
        blocks: str = "unlimited",
    ) -> SshFault | None:
        log = self.folder / "log"
        log.write_text("")
        ssh = [
            "timeout", "-k", "2", str(seconds), "ssh", *SSH_OPTIONS.split(), "-o", "ConnectTimeout=2",
            "-o", f"UserKnownHostsFile={known or self.server.known_hosts}", "-i", str(key or self.server.client_key),
            "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", *extra, "-E", str(log),
            "-p", str(port or self.server.port), "-l", self.server.user, "--", host, command,
        ]  # fmt: skip
        with (self.folder / "out").open("wb") as out:
            done = subprocess.run(
                ["sh", "-c", f'ulimit -f {blocks}; "$@"; exit $?', "sh", *ssh],
                stdout=out, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=90, check=False,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": str(self.folder)},
            )  # fmt: skip
        return ssh_fault(done.returncode, log.read_text(), done.stderr, TARGET)


@pytest.fixture
def ssh(server: openssh.Sshd, tmp_path: Path) -> Ssh:
    assert shutil.which("ssh")
    return Ssh(server, tmp_path)


def told(fault: SshFault | None) -> tuple[OutcomeKind, str, bool, bool]:
    assert fault is not None
    return fault.kind, fault.detail, fault.logged_in, fault.of_head


class TestBeforeTheLogin:
    def test_refused(self, ssh: Ssh) -> None:
        fault = ssh(port=openssh.free_port())
        assert told(fault) == (OutcomeKind.REFUSED, "the peer refused the connection", False, False)

    def test_syn_never_answered(self, ssh: Ssh) -> None:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        queued = []
        try:
            for _ in range(4):  # a full queue of connections nobody accepts: the kernel drops further SYNs
                caller = socket.socket()
                caller.setblocking(False)
                caller.connect_ex(listener.getsockname())
                queued.append(caller)
            fault = ssh(port=listener.getsockname()[1], host="127.0.0.1")
        finally:
            for one in [*queued, listener]:
                one.close()
        assert told(fault) == (OutcomeKind.UNREACHABLE, "the peer did not answer", False, False)

    @pytest.mark.parametrize(
        ("greeting", "hang_up", "words"),
        [
            (b"", False, "does not finish the SSH handshake"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", True, "broke off before the login"),
            (b"junk\r\n" * 3000, False, "does not answer as an SSH server"),
            (b"", True, "broke off before the login"),
            (b"SSH-2.0-Gone\r\n", True, "broke off before the login"),
        ],
        ids=["no banner", "junk", "endless junk", "dropped", "banner, then dropped"],
    )
    def test_no_ssh_server(
        self, ssh: Ssh, craft: Callable[..., CraftedServer], greeting: bytes, hang_up: bool, words: str
    ) -> None:
        fault = ssh(port=craft(greeting, hang_up=hang_up).port, host="127.0.0.1")
        assert told(fault) == (OutcomeKind.UNREACHABLE, f"the peer {words}", False, False)

    def test_banner_then_silence_is_the_outer_deadlines(self, ssh: Ssh, craft: Callable[..., CraftedServer]) -> None:
        fault = ssh(port=craft(b"SSH-2.0-Silent\r\n").port, host="127.0.0.1", seconds=4)
        assert told(fault)[0] is OutcomeKind.TIMED_OUT
        assert not told(fault)[2]

    def test_name_that_does_not_resolve(self, ssh: Ssh) -> None:
        kind, detail, inside, of_head = told(ssh(host="no-such-host.invalid"))
        assert (kind, inside, of_head) == (OutcomeKind.UNREACHABLE, False, False)
        assert detail.startswith("the peer ")

    def test_no_common_algorithm(self, ssh: Ssh) -> None:
        kind, detail, _, _ = told(ssh(extra=("-o", "Ciphers=aes128-cbc")))
        assert kind is OutcomeKind.UNREACHABLE
        assert "share no algorithm: no matching cipher" in detail

    def test_wrong_key(self, ssh: Ssh, tmp_path: Path) -> None:
        fault = ssh(key=openssh.make_key(tmp_path / "stranger"))
        assert told(fault) == (OutcomeKind.AUTH_FAILED, "the peer refused the login", False, False)

    def test_no_key(self, ssh: Ssh, tmp_path: Path) -> None:
        assert told(ssh(key=tmp_path / "missing"))[0] is OutcomeKind.AUTH_FAILED

    def test_unknown_host_key(self, ssh: Ssh) -> None:
        fault = ssh(host="127.1.9.9")
        assert told(fault) == (OutcomeKind.HOST_KEY_UNKNOWN, "the peer shows an unknown host key", False, False)

    @pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
    def test_changed_host_key(self, ssh: Ssh, server: openssh.Sshd, tmp_path: Path, kind: str) -> None:
        other = openssh.make_key(tmp_path / "other", kind)
        known = tmp_path / "known"
        words = other.with_suffix(".pub").read_text().split()
        known.write_text(f"[127.1.1.2]:{server.port} {words[0]} {words[1]}\n")
        outcome, detail, inside, _ = told(ssh(known=known))
        assert (outcome, inside) == (OutcomeKind.HOST_KEY_CHANGED, False)
        assert re.fullmatch(r"the peer shows ED25519 SHA256:\S+, not the known one", detail)

    def test_revoked_host_key(self, ssh: Ssh, server: openssh.Sshd, tmp_path: Path) -> None:
        known = tmp_path / "known"
        revoked = f"@revoked [127.1.1.2]:{server.port} {server.host_public_key}\n"
        known.write_text(server.known_hosts.read_text() + revoked)
        kind, detail, _, _ = told(ssh(known=known))
        assert kind is OutcomeKind.HOST_KEY_CHANGED
        assert "@revoked" in detail

    def test_an_ssh_that_cannot_be_used_says_nothing_of_the_peer(self, ssh: Ssh) -> None:
        kind, detail, _, of_head = told(ssh(extra=("-o", "NoSuchOption=yes")))
        assert (kind, of_head) == (OutcomeKind.UNREACHABLE, True)
        assert "Bad configuration option" in detail


class TestAfterTheLogin:
    @pytest.mark.parametrize("command", ["true", "exit 3", "exit 255", "kill -9 $$", "no-such-tool"])
    def test_the_remote_commands_own_end_is_no_fault(self, ssh: Ssh, command: str) -> None:
        assert ssh(command) is None

    def test_a_remote_command_cannot_forge_a_fault(self, ssh: Ssh) -> None:
        lie = "echo 'x: Permission denied (publickey).' >&2; echo 'Host key verification failed.' >&2; exit 255"
        assert ssh(lie) is None

    def test_sshd_killed(self, ssh: Ssh) -> None:
        fault = ssh(_FIND_SSHD + "kill -9 $p; sleep 3")
        assert told(fault) == (OutcomeKind.CONNECTION_LOST, "the connection to the peer broke", True, False)

    def test_the_outer_deadline(self, ssh: Ssh) -> None:
        kind, _, inside, of_head = told(ssh("sleep 30", seconds=3))
        assert (kind, inside, of_head) == (OutcomeKind.TIMED_OUT, True, False)

    def test_more_than_its_file_may_hold(self, ssh: Ssh) -> None:
        kind, detail, inside, _ = told(ssh("cat /dev/zero", blocks="2000"))
        assert (kind, inside) == (OutcomeKind.CONNECTION_LOST, True)
        assert "sent more than all its answers can be" in detail

    def test_an_ssh_killed_on_the_head_says_nothing_of_the_peer(self) -> None:
        fault = ssh_fault(137, 'Authenticated to 127.1.1.2 ([127.1.1.2]:22) using "publickey".\n', "", TARGET)
        assert told(fault)[3]

    def test_a_server_that_does_not_answer_keep_alives(self) -> None:
        log = 'Authenticated to h ([h]:22) using "publickey".\nTimeout, server h not responding.\n'
        assert told(ssh_fault(255, log, "", TARGET))[0] is OutcomeKind.CONNECTION_LOST


@pytest.mark.parametrize("code", [1, 126, 127, 255])
def test_no_word_at_all_is_blamed_on_nobody_but_the_head(code: int) -> None:
    assert told(ssh_fault(code, "", "", TARGET))[3]
