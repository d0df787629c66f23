"""Several clusters bootstrapped side by side, each by a process of its own whose event stream is read here.

A process each: one region's memory, sign-in and Ctrl-C are its own, and one that dies costs the others nothing.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ndctl.model.bootstrapped import Bootstrapped, Stage, StageEnd
from ndctl.model.errors import NdctlError
from ndctl.model.events import Event
from ndctl.report.event_stream import Told, read_events
from ndctl.report.json_text import event_json
from ndctl.workflow.side_by_side import side_by_side

AT_ONCE = 8
PARENT = "NDCTL_BOOTSTRAP_PARENT"  # process id of whoever reads a region's stream
_GRACE_S = 120.0  # of a region to end in an orderly way after the first Ctrl-C
_LEAVE_S = 5.0  # and after the second
_LAST_LINES = 5


@dataclass(slots=True)
class _Region:
    """One process, while it runs."""

    cluster: str
    path: Path
    process: subprocess.Popen[str] | None = None
    story: list[str] = field(default_factory=list)

    def interrupt(self) -> None:
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGINT)


class Regions:
    """Runs `ndctl bootstrap` for each (cluster, inventory file). The first Ctrl-C is passed on to all of them."""

    def __init__(
        self,
        inventories: Sequence[tuple[str, Path]],
        options: Sequence[str],
        *,
        at_once: int = AT_ONCE,
        program: Sequence[str] = (sys.executable, "-m", "ndctl"),
    ) -> None:
        self._regions = [_Region(*one) for one in inventories]
        self._options = list(options)
        self._program = list(program)
        self._at_once = at_once
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run(self, on_line: Callable[[str, Told], None]) -> list[Mapping[str, Any]]:
        """The answer of each inventory, in their order, as `Bootstrapped.as_dict` gives it.

        on_line: every line of every stream, as it was written and as it was read; called by several threads, one at a
        time. A second Ctrl-C is raised as KeyboardInterrupt when all processes have ended.
        """
        passing_on = threading.Thread(target=self._pass_on, daemon=True)
        passing_on.start()
        try:
            ended = side_by_side(
                self._regions,
                lambda one: self._one(one, on_line),
                workers=self._at_once,
                stop=self._stop,
                grace_s=_GRACE_S,
            )
        finally:
            self._stop.set()
            passing_on.join()
            self._end()
        return [
            ended.results.get(index) or self._unfinished(one, None, on_line) for index, one in enumerate(self._regions)
        ]

    def _pass_on(self) -> None:
        self._stop.wait()
        for region in self._regions:
            region.interrupt()

    def _end(self) -> None:
        """Nothing that was started stays: who still runs here was told to stop, and had its time."""
        left = [one.process for one in self._regions if one.process is not None and one.process.poll() is None]
        for process in left:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        for process in left:
            try:
                process.wait(_LEAVE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _one(self, region: _Region, on_line: Callable[[str, Told], None]) -> Mapping[str, Any]:
        region.process = subprocess.Popen(
            [*self._program, "bootstrap", str(region.path), "--yes", "--events", "jsonl", *self._options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            env={**os.environ, PARENT: str(os.getpid())},
            start_new_session=True,  # a terminal's Ctrl-C comes to this process alone, which passes it on once
        )
        if self._stop.is_set():
            region.interrupt()
        assert region.process.stdout is not None and region.process.stderr is not None
        listening = threading.Thread(target=_listen, args=(region.process.stderr, region.story), daemon=True)
        listening.start()
        answer: Mapping[str, Any] = {}
        for line in region.process.stdout:
            try:
                told = next(read_events([line], str(region.path)), None)
            except NdctlError:
                told = None  # not of ndctl: a warning of a library, say
            if told is None:
                region.story.append(line.rstrip())
                continue
            if told.event.type == "result":
                answer = told.event.data
            with self._lock:
                on_line(line, told)
        code = region.process.wait()
        listening.join(_LEAVE_S)
        return answer or self._unfinished(region, code, on_line)

    def _unfinished(self, region: _Region, code: int | None, on_line: Callable[[str, Told], None]) -> Mapping[str, Any]:
        """Of a process that ended without an answer: killed, say, or never begun. code: its exit status, negative for a
        signal; None: it was not begun, or not waited for any longer."""
        if code is None:
            exit_code, said = 130, "interrupted before it began" if region.process is None else "interrupted"
        else:
            exit_code = code if code > 0 else (130 if -code in (signal.SIGINT, signal.SIGTERM) else 1)
            how = f"ended by signal {-code}" if code < 0 else f"ended with exit status {code}"
            said = " / ".join([f"{how} and without an answer", *(line for line in region.story if line)])
        again = f"ndctl bootstrap {shlex.quote(str(region.path))} --yes   (goes on where this stopped)"
        error = {"code": "interrupted" if exit_code == 130 else "bootstrap.no-answer", "class": "unknown"}
        first = StageEnd(Stage.PREFLIGHT, "failed", said, exit_code, again, {**error, "retryable": True})
        rest = [StageEnd(stage, "not reached") for stage in Stage if stage is not Stage.PREFLIGHT]
        found = Bootstrapped(region.cluster, str(region.path), "", (first, *rest), interrupted=exit_code == 130)
        answer = found.as_dict()
        event = Event("result", "failed", region.cluster, step="bootstrap", message=said, data=answer)
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        line = event_json(event, time, f"unfinished-{region.cluster}") + "\n"
        with self._lock:
            on_line(line, Told(time, "", event, {}))
        return answer


def _listen(stream: Any, story: list[str]) -> None:
    for line in stream:
        story.append(line.rstrip())
        del story[:-_LAST_LINES]
