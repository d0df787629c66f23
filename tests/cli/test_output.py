"""Colour and folding on a terminal, and neither anywhere else."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ndctl.cli.output import emit, note, say, show_judgement, show_run
from ndctl.cli.progress import progress
from ndctl.model.events import Event
from ndctl.model.findings import Judgement
from ndctl.model.status import Status, Verdict
from ndctl.record.store import Store
from tests.model import builders
from tests.model.builders import finding, rack

ANSI = re.compile(r"\x1b\[[0-9;]*m")
MESSAGE = "[red]not red[/red] :fire: " + " ".join(f"word{number}" for number in range(20))
KEPT = builders.run(rack(verdict=Verdict.REJECTED, findings=(finding(message=MESSAGE),)), exit_code=7)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "NDCTL_VERBOSE"):
        monkeypatch.delenv(name, raising=False)


def on_terminal(tmp_path: Path, *before: str, columns: str = "60", **environ: str) -> str:
    """What `ndctl report` writes to a pseudo-terminal."""
    with Store(tmp_path / "runs.sqlite") as store:
        store.finish(KEPT)
    return typed(tmp_path, *before, "report", columns=columns, **environ)


def typed(tmp_path: Path, *arguments: str, columns: str = "60", **environ: str) -> str:
    """What the program writes to a pseudo-terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ndctl", *arguments],
        env={"NDCTL_STATE_DIR": str(tmp_path), "TERM": "xterm-256color", "COLUMNS": columns, "PATH": ""} | environ,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # Linux tells the end of a pseudo-terminal by EIO
        pass
    os.close(ours)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0
    return written.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colour_and_folded_lines(tmp_path: Path) -> None:
    text = on_terminal(tmp_path)
    assert ANSI.search(text)
    lines = ANSI.sub("", text).splitlines()
    assert all(len(line) <= 60 or "ndctl " in line for line in lines)
    assert "  fail     rack07-n11  GPU 2 (0018:01:00.0)   [red]not" in lines
    assert "           word12 word13 word14 word15 word16 word17 word18" in lines


@pytest.mark.parametrize(
    ("before", "environ"), [((), {"NO_COLOR": "1"}), (("--no-color",), {}), ((), {"TERM": "dumb"})]
)
def test_no_colour_where_none_is_wanted(tmp_path: Path, before: tuple[str, ...], environ: dict[str, str]) -> None:
    text = on_terminal(tmp_path, *before, **environ)
    assert "\x1b" not in text
    assert MESSAGE in " ".join(text.split())
    assert max(len(line) for line in text.splitlines() if "ndctl " not in line) <= 80  # Rich's width of a dumb one


@pytest.mark.parametrize("verb", [(), ("sim",), ("validate",)])
def test_no_colour_in_a_help_where_none_is_wanted(tmp_path: Path, verb: tuple[str, ...]) -> None:
    """`--help` is answered before any other option is looked at."""
    told = [
        typed(tmp_path, "--no-color", *verb, "--help"),
        typed(tmp_path, *verb, "--help", NO_COLOR="1"),
        typed(tmp_path, "--no-color", *verb, "--help", FORCE_COLOR="1"),
    ]
    assert "Usage:" in told[0] and "\x1b" not in told[0]
    assert set(told) == {told[0]}
    assert ANSI.search(typed(tmp_path, *verb, "--help"))


def test_a_pipe_gets_neither(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    show_run(KEPT)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert f"  fail     rack07-n11  GPU 2 (0018:01:00.0)   {MESSAGE}" in out.splitlines()


def test_colour_in_a_pipe_when_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show_run(KEPT)
    plain = capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    show_run(KEPT)
    coloured = capsys.readouterr().out
    assert ANSI.search(coloured) and ANSI.sub("", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    show_run(KEPT)
    assert capsys.readouterr().out == plain


def test_verbose_shows_more(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDCTL_VERBOSE", "1")
    show_run(builders.run(rack(findings=(finding(Status.SKIP, message="switched off"),)), rack(8)))
    assert "switched off" in capsys.readouterr().out


def test_a_judgement_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_judgement(Judgement("imex", None, Status.FAIL, {}, (finding(subject="text", node="", message="[b]down"),)))
    assert capsys.readouterr().out == "fail     imex: [b]down\n"


def test_what_the_encoding_can_not_hold_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, expected in (("ascii", b"\\xfc \\U0001f525 \\udcff\n"), ("utf-8", "ü 🔥 \\udcff\n".encode())):
        out = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding=encoding))
        emit("ü 🔥 \udcff")
        assert out.getvalue() == expected


def test_events_are_lines_of_the_story(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    node_done = Event("collect", "done", cluster="swc-a", rack="rack07", node="rack07-n03", message="answered")
    note(Event("job", "running", cluster="swc-a", rack="rack07", step="nccl", message="all_reduce\x1b[2J\nx"))
    note(node_done)
    note(Event("collect", "failed", cluster="swc-a", rack="rack07", node="rack07-n03", message="timed-out"))
    monkeypatch.setenv("NDCTL_VERBOSE", "1")
    note(node_done)
    say("said\n")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "swc-a rack07  nccl all_reduce x",
        "swc-a rack07-n03  timed-out",
        "swc-a rack07-n03  answered",
        "said",
    ]


def test_verbs_are_added_once_however_often_the_program_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    from ndctl.cli import main

    for _ in range(2):
        with pytest.raises(SystemExit):
            main.run(["schema", "run"])
    assert len(main.app.registered_commands) + len(main.app.registered_groups) == len(
        {one.name for one in main.app.registered_commands} | {one.name for one in main.app.registered_groups}
    )


def ndctl_into(arguments: list[str], **streams: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ndctl", *arguments], text=True, check=False, timeout=60, **streams)


def test_an_answer_that_can_not_be_written_is_told_and_no_internal_error() -> None:
    with open("/dev/full", "w") as full:
        said = ndctl_into(["schema", "run"], stdout=full, stderr=subprocess.PIPE)
    assert said.returncode == 1
    assert "the answer could not be written to standard output: No space left on device" in said.stderr
    assert "internal error" not in said.stderr


@pytest.mark.parametrize("verb", [[], ["judge"]])
def test_a_help_that_can_not_be_written_is_no_internal_error(verb: list[str]) -> None:
    with open("/dev/full", "w") as full:
        said = ndctl_into([*verb, "--help"], stdout=full, stderr=subprocess.PIPE)
    assert said.returncode == 1 and "No space left on device" in said.stderr
    assert "internal error" not in said.stderr and "Traceback" not in said.stderr


def test_a_closed_standard_output_is_told() -> None:
    said = ndctl_into(["schema", "run"], stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert said.returncode == 1 and "standard output: it is closed" in said.stderr


def test_a_story_that_can_not_be_told_changes_no_exit_status(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        wrong = ndctl_into(["inventory", "lint", str(tmp_path / "none.yaml")], stdout=subprocess.PIPE, stderr=full)
    assert wrong.returncode == 2
    with open("/dev/full", "w") as full, progress(full, lambda: 0.0) as sink:
        sink(Event("deploy", "started", cluster="swc-a", rack="rack01", message="create"))
        sink(Event("deploy", "done", cluster="swc-a", rack="rack01", message="deployed"))  # goes on


def test_a_closed_standard_error_hides_the_story_only(tmp_path: Path) -> None:
    environ = {**os.environ, "NDCTL_STATE_DIR": str(tmp_path)}
    said = ndctl_into(["runs"], stdout=subprocess.PIPE, env=environ, preexec_fn=lambda: os.close(2))
    assert said.returncode == 2 and said.stdout == ""
    assert ndctl_into(["schema"], stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2)).returncode == 0
