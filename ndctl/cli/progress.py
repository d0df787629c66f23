"""The story of a long operation on stderr: live lines on a terminal, one plain line per change elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from ndctl.cli.output import tell

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ndctl.model.events import Event, EventSink

_LIVE_ROWS = 20  # racks at work shown at once on a terminal


@contextmanager
def progress(stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[EventSink]:
    """A sink that shows events as they come; the display ends with the block."""
    out = stream or sys.stderr
    if not is_live(out):
        yield _PlainLines(out, clock)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=out, highlight=False)
    table = _LiveTable(console, clock)
    with Live(console=console, get_renderable=table.render, refresh_per_second=4, transient=True):
        yield table


def is_live(out: TextIO | None) -> bool:
    """Whether lines that change can be shown there."""
    return out is not None and out.isatty() and os.environ.get("TERM") != "dumb"


def _subject(event: Event) -> str:
    return event.node or event.rack or event.step or event.cluster


class _PlainLines:
    """One line when what is said of a rack changes; the same words twice are said once."""

    def __init__(self, out: TextIO | None, clock: Callable[[], float]) -> None:
        self._out, self._clock, self._start = out, clock, clock()
        self._said: dict[str, str] = {}
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        subject = " ".join(part for part in (_subject(event), event.step if event.rack else "") if part)
        words = event.message or event.status
        with self._lock:
            if self._said.get(subject) == words:
                return
            self._said[subject] = words
            tell(self._out, f"{minutes(self._clock() - self._start):>7}  {subject}  {words}\n")


class _LiveTable:
    """One line per rack at work, and a count of those that ended; what failed is printed and stays."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console, self._clock = console, clock
        self._running: dict[str, tuple[float, str]] = {}
        self._done = self._failed = 0
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        subject = " ".join(part for part in (_subject(event), event.step if event.rack else "") if part)
        with self._lock:
            started, _ = self._running.get(subject, (self._clock(), ""))
            if event.status in ("done", "failed"):
                self._running.pop(subject, None)
                self._done += event.status == "done"
                self._failed += event.status == "failed"
            else:
                self._running[subject] = (started, event.message or event.status)
        if event.status == "failed":
            self._console.print(f"{subject}  {event.message}", style="red", markup=False)

    def render(self) -> RenderableType:
        from rich.text import Text

        with self._lock:
            rows = list(self._running.items())
            lines = [
                f"{subject}  {words}   {minutes(self._clock() - started)}"
                for subject, (started, words) in rows[:_LIVE_ROWS]
            ]
            if len(rows) > _LIVE_ROWS:
                lines.append(f"and {len(rows) - _LIVE_ROWS} more")
            lines.append(f"{self._done} done, {self._failed} failed, {len(rows)} at work")
        return Text("\n".join(lines))


def minutes(seconds: float) -> str:
    """6m12s, 45s"""
    whole = round(seconds)
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"
