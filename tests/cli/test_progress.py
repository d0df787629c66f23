"""The story on stderr."""

import io
from collections.abc import Iterator

from ndctl.cli.progress import minutes, progress
from ndctl.model.events import Event


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ticking() -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += 1.0


def test_plain_lines_say_each_change_once() -> None:
    out, clock = io.StringIO(), ticking()
    with progress(out, lambda: next(clock)) as sink:
        for words in ("block creating", "block creating", "block 18 ✓"):
            sink(Event("deploy", "running", cluster="c", rack="rack07", message=words))
        sink(Event("deploy", "done", cluster="c", step="foundation", message="deployed"))
    assert out.getvalue() == (
        "     1s  rack07  block creating\n     2s  rack07  block 18 ✓\n     3s  foundation  deployed\n"
    )


def test_terminal_keeps_what_failed() -> None:
    out = Terminal()
    with progress(out) as sink:
        sink(Event("deploy", "running", cluster="c", rack="rack01", message="scale set running"))
        sink(Event("deploy", "failed", cluster="c", rack="rack02", message="failed: [AllocationFailed]"))
    assert "rack02  failed: [AllocationFailed]" in out.getvalue()


def test_minutes() -> None:
    assert [minutes(n) for n in (0.4, 59, 60, 372)] == ["0s", "59s", "1m00s", "6m12s"]
