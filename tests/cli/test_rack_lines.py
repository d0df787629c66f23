"""One live line a rack while a validation runs."""

from __future__ import annotations

import io

from rich.console import Console

from ndctl.cli.rack_lines import _RackLines, rack_lines
from ndctl.model.events import Event


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(lines: _RackLines) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as capture:
        console.print(lines.render())
    return capture.get().splitlines()


def rack(name: str, status: str, message: str, type_: str = "rack", step: str = "", node: str = "") -> Event:
    return Event(type_, status, cluster="c", rack=name, node=node, step=step, message=message)


def test_each_rack_has_one_line_that_changes_and_goes() -> None:
    now = [0.0]
    lines = _RackLines(Console(file=io.StringIO()), lambda: now[0])
    for name in ("rack01", "rack02"):
        lines(rack(name, "started", "asking 18 nodes"))
        now[0] += 1
    lines(rack("rack01", "running", "17 of 18 nodes answered"))
    lines(rack("rack01", "running", "16 GiB", "job", "nccl.all_reduce"))
    now[0] = 62.0
    assert shown(lines) == [
        "rack01  17 of 18 nodes answered   nccl.all_reduce 16 GiB   1m02s",
        "rack02  asking 18 nodes   1m01s",
        "racks: 0 done, 2 at work",
    ]
    lines(rack("rack01", "done", "18 of 18 nodes answered"))
    assert shown(lines) == ["rack02  asking 18 nodes   1m01s", "racks: 1 done, 1 at work"]


def test_many_racks_are_a_screenful() -> None:
    lines = _RackLines(Console(file=io.StringIO()), lambda: 0.0)
    for number in range(64):
        lines(rack(f"rack{number:02d}", "started", "asking 18 nodes"))
    told = shown(lines)
    assert len(told) == 22 and told[-2:] == ["and 44 more", "racks: 0 done, 64 at work"]


def test_what_failed_stays_and_control_characters_do_no_harm() -> None:
    out = Terminal()
    with rack_lines(out) as sink:
        sink(rack("rack01", "failed", "refused: \x1b]0;owned\x07 [node]", "collect", node="rack01-n03"))
        sink(Event("note", "started", cluster="c", message="nodes: 18"))
    assert "rack01-n03  refused: " in out.getvalue() and "[node]" in out.getvalue()
    assert "\x1b]0;" not in out.getvalue()
    assert "c  nodes: 18" in out.getvalue()


def test_elsewhere_it_is_plain_lines() -> None:
    told: list[Event] = []
    with rack_lines(io.StringIO(), plain=told.append) as sink:
        sink(rack("rack01", "done", "18 of 18 nodes answered"))
    assert [event.message for event in told] == ["18 of 18 nodes answered"]
