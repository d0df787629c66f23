"""One live line for each rack at work, on a terminal; elsewhere plain lines as things happen."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from ndctl.cli.folded_failures import FoldedFailures
from ndctl.cli.output import note, verbosity
from ndctl.cli.progress import is_live, minutes

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ndctl.model.events import Event, EventSink

_LINES = 20  # racks shown at once; the oldest first, since they are what one waits for


@contextmanager
def rack_lines(
    stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic, plain: EventSink = note
) -> Iterator[EventSink]:
    """A sink for the events of a validation; the display ends with the block."""
    out = stream or sys.stderr
    if not is_live(out):
        with _folded(plain) as sink:
            yield sink
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=out, highlight=False)
    lines = _RackLines(console, clock)
    live = Live(console=console, get_renderable=lines.render, refresh_per_second=4, transient=True)
    with live, _folded(lines) as sink:
        yield sink


@contextmanager
def _folded(tell: EventSink) -> Iterator[EventSink]:
    sink = FoldedFailures(tell)
    try:
        yield sink
    finally:
        sink.flush()


class _RackLines:
    """What each rack is at. What failed, and what is told of no rack, is printed above the lines and stays."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console, self._clock = console, clock
        self._at: dict[tuple[str, str], tuple[float, str, str]] = {}  # since when, nodes, step of its tests
        self._ended = 0
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        from ndctl.report.plain import one_line

        if event.aside and verbosity() == 0:
            return
        key = (event.cluster, event.rack)
        with self._lock:
            if event.rack and not event.node:
                since, nodes, step = self._at.get(key, (self._clock(), "", ""))
                if event.type == "rack":
                    nodes = event.message
                else:
                    step = " ".join(part for part in (event.step, event.message) if part)
                self._at[key] = (since, nodes, step)
                if event.type == "rack" and event.status == "done":
                    self._at.pop(key)
                    self._ended += 1
        stays = not event.rack or (event.status == "failed" and event.type != "rack")
        if stays or (verbosity() > 0 and event.node):
            where = " ".join(part for part in (event.cluster, event.node or event.rack) if part)
            what = " ".join(part for part in (event.step, event.message) if part)
            style = "red" if event.status == "failed" else None
            self._console.print(one_line(f"{where}  {what}".strip()), style=style, markup=False, soft_wrap=True)

    def render(self) -> RenderableType:
        from rich.text import Text

        from ndctl.report.plain import one_line

        with self._lock:
            rows = sorted(self._at.items(), key=lambda row: row[1][0])
            ended = self._ended
        several = len({cluster for (cluster, _), _ in rows}) > 1
        lines = []
        for (cluster, rack), (since, nodes, step) in rows[:_LINES]:
            name = f"{cluster} {rack}" if several else rack
            lines.append(one_line(f"{name}  {nodes}   {step}".rstrip()) + f"   {minutes(self._clock() - since)}")
        if len(rows) > _LINES:
            lines.append(f"and {len(rows) - _LINES} more")
        if rows or ended:
            lines.append(f"racks: {ended} done, {len(rows)} at work")
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
