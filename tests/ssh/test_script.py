"""The combined script under the shells there are, and its stream read back whole, in pieces and broken off."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ndctl.model.answers import HUNG_TOOL_S, Command
from ndctl.ssh.script import ARGUMENT_LIMIT, exec_line, in_order, new_nonce, script_text
from ndctl.ssh.stream import StreamReader

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


def run(
    *commands: Command, shell: str = "sh", environment: dict[str, str] | None = None, path: str | None = None
) -> StreamReader:
    """Run the script as `sh -c TEXT ndctl NONCE`, as a node does, and read its stream."""
    ordered, nonce = in_order(commands), new_nonce()
    argv = ["busybox", "sh"] if shell == "busybox" else [shell, "--posix"] if shell == "bash" else [shell]
    argv[0] = shutil.which(argv[0]) or argv[0]
    variables = {**os.environ, **(environment or {}), **({"PATH": path} if path is not None else {})}
    done = subprocess.run(
        [*argv, "-c", script_text(ordered), "ndctl", nonce], capture_output=True, timeout=120, env=variables
    )
    reader = StreamReader(ordered, nonce)
    reader.feed(done.stdout)
    assert not reader.garbled
    return reader


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_order_streams_and_codes(shell: str) -> None:
    reader = run(
        Command("last", "echo three; exit 3", order=10),
        Command("first", "printf one; printf eins >&2", order=-10),
        Command("middle", "cat; echo 'it'\\''s \"quoted\" $HOME' \\\\"),
        shell=shell,
    )
    assert reader.finished
    assert list(reader.results) == ["first", "middle", "last"]
    assert (reader.results["first"].stdout, reader.results["first"].stderr) == ("one", "eins")
    assert reader.results["middle"].stdout == 'it\'s "quoted" $HOME \\\n', "stdin is empty, quotes survive"
    assert reader.results["last"].exit_code == 3


def test_output_cannot_forge_a_boundary(shell: str) -> None:
    forged = Command("forged", "tr '\\0' '\\n' </proc/$PPID/cmdline; printf '\\n%s 1 0 0 0 0 0 0 0\\n%s end\\n' x x")
    reader = run(forged, Command("next", "echo true"), shell=shell)
    assert reader.finished
    assert reader.results["forged"].stdout.endswith("x 1 0 0 0 0 0 0 0\nx end\n")
    assert reader.results["next"].stdout == "true\n"


def test_a_hang_costs_one_answer(shell: str) -> None:
    reader = run(Command("hang", "echo so far; sleep 60", timeout_s=1), Command("next", "echo on"), shell=shell)
    hang = reader.results["hang"]
    assert (hang.timed_out, hang.exit_code, hang.stdout) == (True, None, "so far\n")
    assert hang.seconds >= 0.95
    assert reader.results["next"].stdout == "on\n"


STUBBORN = "sh -c 'trap \"\" TERM; echo $$; exec sleep 60' & wait"


def ended(pid: int) -> bool:
    """Whether the process is gone, or dead and only waiting for its parent to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until_ended(pid: int) -> None:
    until = time.monotonic() + 10
    while not ended(pid):
        assert time.monotonic() < until, f"process {pid} outlived its deadline"
        time.sleep(0.01)


def test_grandchildren_that_ignore_term_do_not_outlive_the_deadline(shell: str) -> None:
    reader = run(Command("stubborn", STUBBORN, timeout_s=1), Command("next", "echo on"), shell=shell)
    assert reader.results["stubborn"].timed_out
    assert reader.results["next"].stdout == "on\n"
    wait_until_ended(int(reader.results["stubborn"].stdout))


def test_caps_cut_both_streams(shell: str) -> None:
    reader = run(
        Command("big", "head -c 5000 /dev/zero | tr '\\0' o; head -c 5000 /dev/zero | tr '\\0' e >&2", cap_bytes=100),
        Command("exact", "printf 12345", cap_bytes=5),
        shell=shell,
    )
    big = reader.results["big"]
    assert (big.stdout, big.stderr, big.truncated) == ("o" * 100, "e" * 100, True)
    assert (reader.results["exact"].stdout, reader.results["exact"].truncated) == ("12345", False)


def test_a_runaway_file_is_stopped(shell: str) -> None:
    reader = run(Command("limit", "ulimit -f"), shell=shell)
    assert reader.results["limit"].stdout.strip() == "2097152"


def test_bytes_that_are_no_text_are_shown(shell: str) -> None:
    reader = run(Command("binary", "printf 'a\\377\\000b'"), shell=shell)
    assert reader.results["binary"].stdout == "a\\xff\x00b"


def test_the_directory_is_gone_afterwards(shell: str) -> None:
    reader = run(
        Command("where", 'readlink /proc/$$/fd/1; ls -ld "$(dirname "$(readlink /proc/$$/fd/1)")"'), shell=shell
    )
    folder = Path(reader.results["where"].stdout.splitlines()[0]).parent
    assert folder.name.startswith("ndctl.")
    assert reader.results["where"].stdout.splitlines()[1].startswith("drwx------")
    assert not folder.exists()


def test_the_directory_is_gone_when_the_reader_goes(tmp_path: Path) -> None:
    """The connection dies in mid-command: the script ends at its next word and cleans up."""
    commands = (Command("where", "readlink /proc/self/fd/1"), Command("wait", "sleep 1"), Command("more", "echo x"))
    process = subprocess.Popen(
        ["sh", "-c", script_text(commands), "ndctl", "nonce"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    process.stdout.close()
    process.wait(30)
    folder = Path(lines[2].decode().strip()).parent
    assert folder.name.startswith("ndctl.")
    assert not folder.exists()


def test_sysroot_is_empty_unless_set(shell: str) -> None:
    command = Command("root", 'echo "[$NDCTL_SYSROOT]"')
    assert run(command, shell=shell).results["root"].stdout == "[]\n"
    assert run(command, shell=shell, environment={"NDCTL_SYSROOT": "/node"}).results["root"].stdout == "[/node]\n"


@pytest.fixture
def shell_with_path(shell: str) -> str:
    """A shell in which a stand-in on PATH is found; busybox may prefer its own applets to any file."""
    if shell == "busybox":
        pytest.skip("busybox runs its own applets, whatever stands on PATH")
    return shell


def tools(folder: Path, *names: str, **scripts: str) -> str:
    """A PATH of these system tools and these stand-ins only (the script adds the system's own folders after it)."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).symlink_to(str(shutil.which(name)))
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


class TestRoot:
    """As a user who is not root: `id -u` says so, and `sudo` is a stand-in that allows or refuses."""

    def test_through_sudo(self, tmp_path: Path, shell_with_path: str) -> None:
        path = tools(
            tmp_path / "bin", id="echo 1000", sudo='[ "$1" = -n ] || exit 9; shift; SUDOED=yes exec env SUDOED=yes "$@"'
        )
        reader = run(
            Command("as-root", 'echo "$SUDOED $NDCTL_SYSROOT"', root=True),
            Command("as-user", 'echo "[$SUDOED]"'),
            Command("fails", "echo no >&2; exit 1", root=True),
            shell=shell_with_path,
            path=path,
            environment={"NDCTL_SYSROOT": "/node"},
        )
        assert reader.results["as-root"].stdout == "yes /node\n"
        assert reader.results["as-user"].stdout == "[]\n"
        assert (reader.results["fails"].exit_code, reader.results["fails"].stderr) == (1, "no\n")

    def test_refused_is_told_from_a_failure(self, tmp_path: Path, shell_with_path: str) -> None:
        path = tools(tmp_path / "bin", id="echo 1000", sudo="echo 'sudo: a password is required' >&2; exit 1")
        reader = run(
            Command("as-root", "echo never", root=True), Command("next", "echo on"), shell=shell_with_path, path=path
        )
        refused = reader.results["as-root"]
        assert (refused.exit_code, refused.stdout) == (126, "")
        assert "no right to run this as root: sudo: a password is required" in refused.stderr
        assert reader.results["next"].stdout == "on\n"

    def test_hang_as_root(self, tmp_path: Path, shell_with_path: str) -> None:
        path = tools(tmp_path / "bin", id="echo 1000", sudo='shift; exec "$@"')
        reader = run(
            Command("hang", "sleep 60", timeout_s=1, root=True),
            Command("next", "echo on"),
            shell=shell_with_path,
            path=path,
        )
        assert reader.results["hang"].timed_out
        assert reader.results["next"].stdout == "on\n"

    def test_grandchildren_do_not_outlive_the_deadline(self, tmp_path: Path, shell_with_path: str) -> None:
        path = tools(tmp_path / "bin", id="echo 1000", sudo='shift; exec "$@"')
        reader = run(Command("stubborn", STUBBORN, timeout_s=1, root=True), shell=shell_with_path, path=path)
        assert reader.results["stubborn"].timed_out
        wait_until_ended(int(reader.results["stubborn"].stdout))


def test_no_timeout_means_nothing_is_run(tmp_path: Path, shell_with_path: str) -> None:
    path = tools(tmp_path / "bin", timeout="exit 127")
    mark = tmp_path / "ran"
    reader = run(Command("touch", f"touch {mark}"), shell=shell_with_path, path=path)
    assert "no usable 'timeout'" in reader.refusal
    assert reader.done
    assert not reader.results
    assert not mark.exists()


def test_no_directory_means_nothing_is_run(tmp_path: Path, shell_with_path: str) -> None:
    path = tools(tmp_path / "bin", mktemp="exit 1")
    reader = run(Command("echo", "echo x"), shell=shell_with_path, path=path)
    assert "no temporary directory" in reader.refusal
    assert not reader.results


class TestReading:
    COMMANDS = (Command("a", ""), Command("b", "", cap_bytes=10))
    STREAM = b"motd\nN begin\nN 0 0 10.00 10.25 5 5 3 3\nhelloerrN 1 7 10.25 11.00 2 20 0 0\nxyN end\n"

    def test_any_split_gives_the_same(self) -> None:
        for size in range(1, len(self.STREAM)):
            reader = StreamReader(self.COMMANDS, "N")
            for at in range(0, len(self.STREAM), size):
                reader.feed(self.STREAM[at : at + size])
            assert reader.finished
            assert reader.noise == "motd"
            a, b = reader.results.values()
            assert (a.stdout, a.stderr, a.exit_code, a.seconds, a.truncated) == ("hello", "err", 0, 0.25, False)
            assert (b.stdout, b.exit_code, b.seconds, b.truncated) == ("xy", 7, 0.75, True)

    def test_broken_off_anywhere_keeps_what_is_whole(self) -> None:
        first_whole = self.STREAM.index(b"errN") + 3
        for size in range(len(self.STREAM)):
            reader = StreamReader(self.COMMANDS, "N")
            reader.feed(self.STREAM[:size])
            reader.end_of_stream()
            assert not reader.finished
            assert ("a" in reader.results) is (size >= first_whole)
            assert not reader.garbled

    def test_says_which_command_is_awaited(self) -> None:
        reader = StreamReader(self.COMMANDS, "N")
        assert reader.current is None
        reader.feed(self.STREAM[: self.STREAM.index(b"errN") + 4])
        assert reader.current is self.COMMANDS[1]

    @pytest.mark.parametrize(
        "line",
        [
            b"N 0 0 1 2 99999999 99999999 0 0\n",  # more than the cap
            b"N 1 0 1 2 0 0 0 0\n",  # out of turn
            b"N 7 0 1 2 0 0 0 0\n",
            b"N 0 0 1 2 -5 0 0 0\n",
            b"N 0 zero 1 2 0 0 0 0\n",
            b"N 0\n",
            b"M 0 0 1 2 0 0 0 0\n",
            b"x" * 2000,
        ],
    )
    def test_a_wrong_header_ends_the_reading(self, line: bytes) -> None:
        reader = StreamReader(self.COMMANDS, "N")
        reader.feed(b"N begin\n" + line)
        assert reader.garbled
        assert reader.done
        assert not reader.results

    def test_noise_is_bounded(self) -> None:
        reader = StreamReader(self.COMMANDS, "N")
        for _ in range(200):
            reader.feed(b"z" * 65536)
        reader.end_of_stream()
        assert len(reader.noise) == 4000
        assert not reader._buffer


def test_long_scripts_go_to_stdin() -> None:
    short, long = Command("s", "echo x"), Command("l", "echo " + "y" * ARGUMENT_LIMIT)
    line, stdin = exec_line((short,), "N")
    assert line.startswith("exec sh -c ")
    assert line.endswith(" ndctl N")
    assert stdin == b""
    line, stdin = exec_line((long,), "N")
    assert line == "exec sh -s N"
    assert b"y" * ARGUMENT_LIMIT in stdin


def test_after_a_tool_hung_its_other_commands_get_a_short_deadline(shell: str) -> None:
    reader = run(
        Command("first", "sleep 60", timeout_s=1.5, tool="driver"),
        Command("second", "echo half; sleep 60", timeout_s=50, tool="driver"),
        Command("other", "echo fine", timeout_s=40),
        Command("third", "echo quick", timeout_s=40, tool="driver"),
        shell=shell,
    )
    results = reader.results
    assert results["first"].timed_out and results["second"].timed_out
    assert results["second"].stdout == "half\n"
    assert HUNG_TOOL_S - 0.5 <= results["second"].seconds < 40
    assert results["other"].stdout == "fine\n"
    assert (results["third"].exit_code, results["third"].stdout) == (0, "quick\n")


def test_a_node_too_busy_for_a_trifle_has_timeout_all_the_same(shell: str, tmp_path: Path) -> None:
    real = shutil.which("timeout")
    busy = tmp_path / "timeout"
    busy.write_text(f'#!/bin/sh\n[ "$4" != true ] || exit 124\nexec {real} "$@"\n')
    busy.chmod(0o755)
    reader = run(Command("who", "echo here"), shell=shell, path=f"{tmp_path}:{os.environ['PATH']}")
    assert not reader.refusal and reader.results["who"].stdout == "here\n"
    busy.write_text("#!/bin/sh\nexit 127\n")
    assert "no usable 'timeout'" in run(Command("who", "echo here"), shell=shell, path=f"{tmp_path}:/bin").refusal


def test_a_script_that_ends_before_all_have_answered_is_no_whole_answer() -> None:
    reader = StreamReader([Command("a", "true"), Command("b", "true")], "Nonce")
    reader.feed(b"Nonce begin\nNonce 0 0 1.00 1.00 0 0 0 0\nNonce end\n")
    assert reader.done and not reader.finished and "impossible header" in reader.garbled
