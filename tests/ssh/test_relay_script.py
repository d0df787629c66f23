"""The head's script under the shells there are, and the editing of authorized_keys."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ndctl.jobs import nccl_scripts
from ndctl.model.answers import Command
from ndctl.ssh import relay_keys, relay_loop, relay_script
from ndctl.ssh.relay_frames import Frame, FrameKind, FrameReader
from ndctl.ssh.relay_script import Order, PeerLine, relay_line, relay_text
from ndctl.ssh.script import new_nonce
from ndctl.ssh.stream import StreamReader
from tests.ssh import sshd as openssh
from tests.ssh.own_nodes import TMPFS, has_argument, relay_folders, wait_until
from tests.ssh.test_script import SHELLS

pytestmark = pytest.mark.xdist_group("relay")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    program = shutil.which(str(request.param)) or str(request.param)
    return [program, "sh"] if request.param == "busybox" else [program]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """A socket where an agent might be."""
    path = tmp_path / "agent"
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        one.listen()
        yield path


class Head:
    """The script on this machine, in a home of its own."""

    def __init__(self, shell: list[str], order: Order, home: Path, agent: Path | None) -> None:
        self.nonce = new_nonce()
        text = relay_text(order, self.nonce)
        environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
        if agent is not None:
            environment["SSH_AUTH_SOCK"] = str(agent)
        boot = relay_loop.BOOT
        assert boot in relay_line(self.nonce, text).replace("'\"'\"'", "'")
        self.process = subprocess.Popen(
            [*shell, "-c", boot, "ndctl-relay", self.nonce, str(len(text))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        )  # fmt: skip
        self.reader = FrameReader(self.nonce, len(order.peers))
        self.say(text)

    def say(self, text: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def frames(self) -> Iterator[Frame]:
        assert self.process.stdout is not None
        while data := os.read(self.process.stdout.fileno(), 65_536):
            yield from self.reader.feed(data)
        assert not self.reader.garbled

    def close(self) -> int:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return self.process.wait(20)


def here(*commands: Command) -> PeerLine:
    return PeerLine(0, "-", 22, "me", new_nonce(), commands, 60)


def nobody(number: int, port: int) -> PeerLine:
    return PeerLine(number, "127.0.0.1", port, "me", new_nonce(), (Command("c", "true"),), 60)


def test_a_head_asks_itself_and_says_why_a_peer_is_not_reached(shell: list[str], agent: Path, tmp_path: Path) -> None:
    before = relay_folders()
    own = here(Command("big", "head -c 3000000 /dev/zero | tr '\\0' x"), Command("last", "printf end; exit 3"))
    order = Order((own, *(nobody(at, openssh.free_port()) for at in range(1, 7))), (), connect_s=5)
    head = Head(shell, order, tmp_path, agent)
    frames = list(head.frames())
    assert head.close() == 0
    reader = StreamReader(own.commands, own.nonce)
    for frame in frames:
        if frame.kind is FrameKind.BLOCK and frame.peer == 0:
            reader.feed(frame.data)
    assert reader.finished
    assert len(reader.results["big"].stdout) == 3_000_000
    assert (reader.results["last"].stdout, reader.results["last"].exit_code) == ("end", 3)
    ends = {frame.peer: frame for frame in frames if frame.kind is FrameKind.END}
    assert sorted(ends) == list(range(7))
    assert all(end.code == 255 and "Connection refused" in end.log for at, end in ends.items() if at)
    assert frames[-1].kind is FrameKind.DONE
    assert relay_folders() <= before


def test_no_more_than_four_begin_at_once(shell: list[str], agent: Path, tmp_path: Path) -> None:
    """Six peers whose servers say nothing: four begin, the others when those count as slow."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
    try:
        peers = tuple(nobody(at, one.getsockname()[1]) for at, one in enumerate(listeners))
        head = Head(shell, Order(peers, (), connect_s=30), tmp_path, agent)
        started: list[tuple[int, float]] = []
        for frame in head.frames():
            if frame.kind is FrameKind.START:
                started.append((frame.peer, time.monotonic()))
                if len(started) == 6:
                    break
        assert [peer for peer, _ in started] == list(range(6))
        assert started[3][1] - started[0][1] < 4
        assert started[4][1] - started[0][1] > relay_script.SLOW_S - 1.5
        head.close()
    finally:
        for one in listeners:
            one.close()
    wait_until(lambda: not [name for name in relay_folders() if name.startswith("ndctl-relay.")])


def test_kill_and_halt_are_heard(shell: list[str], agent: Path, tmp_path: Path) -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
    try:
        peers = tuple(nobody(at, one.getsockname()[1]) for at, one in enumerate(listeners))
        head = Head(shell, Order(peers, (), connect_s=60), tmp_path, agent)
        started: list[int] = []
        ended: list[int] = []
        for frame in head.frames():
            if frame.kind is FrameKind.START:
                started.append(frame.peer)
                if len(started) == 4:
                    head.say(b"halt\nkill 5\nkill 0\nkill 1\nkill 2\nkill 3\n")
            if frame.kind is FrameKind.END:
                ended.append(frame.peer)
        assert (started, sorted(ended)) == ([0, 1, 2, 3], [0, 1, 2, 3])
        assert head.close() == 0
    finally:
        for one in listeners:
            one.close()


def test_the_end_of_stdin_ends_everything(shell: list[str], agent: Path, tmp_path: Path) -> None:
    """The client is gone: its ssh, its directory and its key go too."""
    token = f"test{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        order = Order((nobody(0, silent.getsockname()[1]),), (), 60, token=token, admit=True, key_minutes=5)
        head = Head(shell, order, tmp_path, agent)
        for frame in head.frames():
            if frame.kind is FrameKind.START:
                break
        key = Path(relay_keys.key_directory(token))
        assert (key / "key").stat().st_mode & 0o777 == 0o600
        assert key.stat().st_mode & 0o777 == 0o700
        head.close()
        wait_until(lambda: not key.exists())
        wait_until(lambda: not [name for name in relay_folders() if name.startswith("ndctl-relay.")])


@pytest.mark.parametrize(
    ("order", "agent_there", "word"),
    [
        (Order((), (), 5), False, relay_script.NO_AGENT),
        (Order((), (), 5, token="absent"), True, relay_script.NO_KEY),
    ],
    ids=["no agent", "no key"],
)
def test_what_a_head_cannot_do_it_says(
    shell: list[str], agent: Path, tmp_path: Path, order: Order, agent_there: bool, word: str
) -> None:
    head = Head(shell, order, tmp_path, agent if agent_there else None)
    assert list(head.frames()) == [Frame(FrameKind.CANNOT, word=word)]
    head.close()


def test_without_ssh_nothing_is_begun(agent: Path, tmp_path: Path) -> None:
    """A PATH without ssh; the script adds the system's own places, so the name is what is missing."""
    text = relay_text(Order((), (), 5), "N")
    boot = relay_loop.BOOT.replace("command -v ssh", "command -v ssh-that-is-missing")
    done = subprocess.run(["sh", "-c", boot, "x", "N", str(len(text))], input=text, capture_output=True, timeout=30)
    assert done.stdout == b"N begin\nN cannot no-ssh\n"


class TestKeys:
    """The line in authorized_keys; sshd's own opinion of it is in test_relay.py."""

    def edit(self, shell: list[str], script: str, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*shell, "-c", script, "ndctl", *arguments], capture_output=True, text=True, timeout=60,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "SSH_CONNECTION": "10.0.0.4 5 10.0.0.5 22"},
        )  # fmt: skip

    def test_editing_is_as_active_tests_do_it(self) -> None:
        """Rooms beside each other share no code; these two edit the same file, and must lock each other out."""
        assert relay_keys.EDITING == nccl_scripts._KEYS

    def test_admitted_once_renewed_and_forgotten(self, shell: list[str], tmp_path: Path) -> None:
        keys = tmp_path / ".ssh" / "authorized_keys"
        for _ in range(2):
            done = self.edit(shell, relay_keys._admit("tok", 5), tmp_path, "ssh-ed25519 AAAA ndctl-relay-tok:")
            assert done.returncode == 0, done.stderr
        line = keys.read_text()
        assert line.startswith('restrict,expiry-time="') and line.count("\n") == 1
        assert line.endswith(',from="10.0.0.4" ssh-ed25519 AAAA ndctl-relay-tok:\n')
        assert keys.stat().st_mode & 0o777 == 0o600
        assert self.edit(shell, relay_keys.forget_text("to"), tmp_path).returncode == 0
        assert keys.read_text() == line, "another run's token begins like it"
        assert self.edit(shell, relay_keys.forget_text("tok"), tmp_path).returncode == 0
        assert not keys.exists(), "a file that held nothing else was made by us"
        assert self.edit(shell, relay_keys.forget_text("tok"), tmp_path).returncode == 0

    def test_other_lines_and_a_link_stay(self, shell: list[str], tmp_path: Path) -> None:
        (tmp_path / ".ssh").mkdir()
        real = tmp_path / "elsewhere"
        real.write_text("ssh-rsa BBBB no newline")
        (tmp_path / ".ssh" / "authorized_keys").symlink_to(real)
        self.edit(shell, relay_keys._admit("tok", 5), tmp_path, "ssh-ed25519 AAAA ndctl-relay-tok:")
        assert real.read_text().splitlines()[0] == "ssh-rsa BBBB no newline"
        assert "ndctl-relay-tok:" in real.read_text()
        self.edit(shell, relay_keys.forget_text("tok"), tmp_path)
        assert real.read_text() == "ssh-rsa BBBB no newline\n"
        assert sorted(path.name for path in (tmp_path / ".ssh").iterdir()) == ["authorized_keys"]

    def test_lines_of_runs_that_are_over_are_taken_out(self, shell: list[str], tmp_path: Path) -> None:
        def line(token: str, until: str = "209901010000", head: str = "10.0.0.4", more: str = "restrict") -> str:
            return f'{more},expiry-time="{until}",from="{head}" ssh-ed25519 AA+/= ndctl-relay-{token}:\n'

        over = line("a1", until="202612020000", head="10.0.0.9") + line("a2") + line("b")
        stays = [
            line("c3"),  # the head has its key
            line("d4", head="10.0.0.9"),  # another head may have it
            "# ndctl-relay-e5: is what a run's line is marked with\n",
            line("f6", until="202001010000", more='command="x",restrict'),  # not as we write it
            line("f7").replace("ndctl-relay", "someone ndctl-relay"),
            "ssh-rsa BBBB someone@else\n",
        ]
        keys = tmp_path / ".ssh" / "authorized_keys"
        keys.parent.mkdir()
        keys.write_text(stays[0] + over + "".join(stays[1:]))
        public = "ssh-ed25519 AAAA ndctl-relay-bb:"
        done = self.edit(shell, relay_keys._admit("bb", 5), tmp_path, public, " bb c3")
        assert done.returncode == 0, done.stderr
        *before, mine = keys.read_text().splitlines(keepends=True)
        assert before == stays and mine.endswith(f" {public}\n")
        assert [path.name for path in keys.parent.iterdir()] == ["authorized_keys"]

    def test_a_full_disk_while_lines_are_taken_out_leaves_the_file_as_it_was(
        self, shell: list[str], tmp_path: Path
    ) -> None:
        keys = tmp_path / ".ssh" / "authorized_keys"
        keys.parent.mkdir()
        was = 'restrict,expiry-time="202001010000",from="10.0.0.4" ssh-ed25519 AA ndctl-relay-aa:\nssh-rsa BBBB me\n'
        keys.write_text(was)
        script = 'awk() { command awk "$@"; return 1; }; ' + relay_keys._admit("bb", 5)
        assert self.edit(shell, script, tmp_path, "ssh-ed25519 AAAA ndctl-relay-bb:", "").returncode == 1
        assert keys.read_text() == was
        assert [path.name for path in keys.parent.iterdir()] == ["authorized_keys"]

    def test_nothing_is_admitted_without_knowing_the_head(self, shell: list[str], tmp_path: Path) -> None:
        done = subprocess.run(
            [*shell, "-c", relay_keys._admit("tok", 5), "ndctl", "ssh-ed25519 AAAA x"], timeout=30,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 1
        assert not (tmp_path / ".ssh").exists()

    def test_a_home_that_cannot_be_written_is_left_alone(self, shell: list[str], tmp_path: Path) -> None:
        (tmp_path / ".ssh").write_text("not a directory")
        assert self.edit(shell, relay_keys._admit("tok", 5), tmp_path, "ssh-ed25519 AAAA x").returncode == 1
        assert self.edit(shell, relay_keys.forget_text("tok"), tmp_path).returncode == 0

    def test_an_admission_that_comes_late_is_ended_first(self, shell: list[str], tmp_path: Path) -> None:
        """Somebody holds the file while the connection of an admission is cut; it must not add its line afterwards."""
        (tmp_path / ".ssh").mkdir()
        program = "umask 077; " + relay_keys.admit_text("tok", 5)
        with (tmp_path / ".ssh" / "held").open("w"):
            holder = subprocess.Popen(["flock", str(tmp_path / ".ssh"), "sleep", "60"])
            try:
                wait_until(lambda: subprocess.run(["flock", "-n", str(tmp_path / ".ssh"), "true"]).returncode != 0)
                late = subprocess.Popen(
                    [*shell, "-c", f"public='ssh-ed25519 AAAA ndctl-relay-tok:'; {program}", "x", "N"],
                    env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SSH_CONNECTION": "10.0.0.4 5 10.0.0.5 22"},
                    stdout=subprocess.PIPE,
                )
                wait_until(lambda: has_argument(relay_keys.admission("tok")))
                assert self.edit(shell, relay_keys.forget_text("tok"), tmp_path).returncode == 0
                assert late.communicate(timeout=20)[0] == b"", "it says nothing of having admitted"
            finally:
                holder.kill()
                holder.wait(10)
        assert not (tmp_path / ".ssh" / "authorized_keys").exists()


def test_nothing_of_a_head_that_is_killed_goes_on(shell: list[str], agent: Path, tmp_path: Path) -> None:
    before = relay_folders()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        head = Head(shell, Order((nobody(1, silent.getsockname()[1]),), (), connect_s=2), tmp_path, agent)
        mark = f"ndctl-relay\0{head.nonce}".encode()

        def running() -> list[str]:
            return [p.parent.name for p in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(p)]

        wait_until(lambda: len(running()) == 4)  # itself, who listens, who ticks, and the peer's
        head.process.kill()
        head.close()
        wait_until(lambda: not running())
    for name in relay_folders() - before:  # killed like this it cannot clean up itself
        shutil.rmtree(TMPFS / name)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_only_children_are_ended(shell: list[str]) -> None:
    """A number may be another process's by the time it is used."""
    found = re.search(r"^end\(\) \{\n.*?^\}\n", relay_loop.BOOT, re.MULTILINE | re.DOTALL)
    assert found is not None
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            text = f"{found[0]}sleep 60 & own=$!; end {other.pid} $own 999999999; wait $own; echo $?"
            told = subprocess.run([*shell, "-c", text], capture_output=True, text=True, timeout=20)
            assert told.stdout.strip() == "143" and other.poll() is None
        finally:
            other.kill()
