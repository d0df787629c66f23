"""Several clusters bootstrapped side by side, each by a process of its own whose event stream is read here.

A process each: one region's memory, sign-in and Ctrl-C are its own, and one that dies costs the others nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ndctl.model.bootstrapped import Stage
from ndctl.model.errors import NdctlError
from ndctl.report.event_stream import Told, read_events
from ndctl.workflow.side_by_side import side_by_side

AT_ONCE = 8
_GRACE_S = 120.0  # of a region to end in an orderly way after the first Ctrl-C
_LAST_LINES = 5


@dataclass(slots=True)
class _Region:
    """One process, while it runs."""

    path: Path
    process: subprocess.Popen[str] | None = None
    story: list[str] = field(default_factory=list)


class Regions:
    """Runs `ndctl bootstrap` for each inventory. `interrupt` passes a Ctrl-C on to all of them."""

    def __init__(self, paths: Sequence[Path], options: Sequence[str], at_once: int = AT_ONCE) -> None:
        self._regions = [_Region(path) for path in paths]
        self._options = list(options)
        self._at_once = at_once
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run(self, on_line: Callable[[str, Told], None]) -> list[dict[str, Any]]:
        """The answer of each inventory, in their order, as `Bootstrapped.as_dict` gives it.

        on_line: every line of every stream, as it was written and as it was read; called by several threads, one at a
        time
        """
        ended = side_by_side(
            self._regions,
            lambda one: self._one(one, on_line),
            workers=self._at_once,
            stop=self._stop,
            grace_s=_GRACE_S,
        )
        if ended.interrupted:
            self.interrupt()
        return [ended.results.get(index) or _unfinished(one, 130) for index, one in enumerate(self._regions)]

    def interrupt(self) -> None:
        self._stop.set()
        for region in self._regions:
            if region.process is not None and region.process.poll() is None:
                region.process.send_signal(signal.SIGINT)

    def _one(self, region: _Region, on_line: Callable[[str, Told], None]) -> dict[str, Any]:
        command = [sys.executable, "-m", "ndctl", "bootstrap", str(region.path), "--yes", "--events", "jsonl"]
        region.process = subprocess.Popen(
            [*command, *self._options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            env=os.environ,
            start_new_session=True,  # a terminal's Ctrl-C comes to this process alone, which passes it on once
        )
        if self._stop.is_set():
            region.process.send_signal(signal.SIGINT)
        assert region.process.stdout is not None and region.process.stderr is not None
        listening = threading.Thread(target=_listen, args=(region.process.stderr, region.story), daemon=True)
        listening.start()
        answer: dict[str, Any] = {}
        for line in region.process.stdout:
            try:
                told = next(read_events([line], str(region.path)), None)
            except NdctlError:
                told = None  # not of ndctl: a warning of a library, say
            if told is None:
                region.story.append(line.rstrip())
                continue
            if told.event.type == "result":
                answer = dict(told.event.data)
            with self._lock:
                on_line(line, told)
        code = region.process.wait()
        listening.join(5)
        return answer or _unfinished(region, code)


def _listen(stream: Any, story: list[str]) -> None:
    for line in stream:
        story.append(line.rstrip())
        del story[:-_LAST_LINES]


def _unfinished(region: _Region, code: int) -> dict[str, Any]:
    """Of a process that ended without an answer, such as for an inventory that cannot be read."""
    said = " / ".join(line for line in region.story if line) or f"ended with exit status {code} and without an answer"
    exit_code = code if code > 0 else (130 if code == -signal.SIGINT else 1)
    first = {"stage": Stage.PREFLIGHT.value, "status": "failed", "message": said, "exit_code": exit_code}
    first |= {"next_step": f"ndctl bootstrap {region.path}", "error": {}, "facts": {}}
    return {
        "cluster": region.path.stem,
        "inventory": str(region.path),
        "id": "",
        "stages": [first],
        "verdicts": {},
        "record": "",
        "interrupted": exit_code == 130,
        "exit_code": exit_code,
    }
