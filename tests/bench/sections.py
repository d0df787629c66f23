"""Where a run of `ndctl validate` spends its CPU: seams of the program are wrapped, and each thread's own CPU clock is
read when one is entered and left. A seam inside another one is counted for itself only.

A sampling profiler would see the main thread; the fan-out works in dozens of others, and half of its CPU is theirs.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

# Parsers other than XML's are counted one by one, as "text: NAME".
SECTIONS = ("ssh", "framing", "XML", "other text parsing", "checks", "recording", "JSON", "rendering", "other")
TEXT = "text: "


class Clocks:
    """CPU seconds by section, over all threads."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._of = threading.local()

    def wrapped(self, section: str, function: Callable[..., Any]) -> Callable[..., Any]:
        of = self._of

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            outer = getattr(of, "inner", None)
            of.inner = 0.0
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                whole = time.thread_time() - began
                own = whole - of.inner
                of.inner = None if outer is None else outer + whole
                with self._lock:
                    self.spent[section] += own
                    self.calls[section] += 1

        return timed

    def wrap(self, section: str, owner: Any, name: str) -> None:
        setattr(owner, name, self.wrapped(section, getattr(owner, name)))


def wrap_everything(clocks: Clocks) -> None:
    """Before anything of `checks` and `workflow` is imported: they bind parsers by name."""
    import ndctl.parse

    for found in pkgutil.iter_modules(ndctl.parse.__path__):
        module = importlib.import_module(f"ndctl.parse.{found.name}")
        section = "XML" if found.name == "nvidia_smi_xml" else TEXT + found.name
        for name in _entrances(module):
            clocks.wrap(section, module, name)
    from paramiko.transport import Transport

    from ndctl.model import jsonable

    for name in ("plain_text", "dumps"):
        clocks.wrap("JSON", jsonable, name)  # the record binds them by name
    from ndctl.record.answers import Answers
    from ndctl.record.store import Store
    from ndctl.ssh import visit
    from ndctl.ssh.stream import StreamReader

    clocks.wrap("ssh", Transport, "run")
    clocks.wrap("ssh", visit, "visit")
    clocks.wrap("framing", StreamReader, "feed")
    for name in ("keep_asking", "keep_text"):
        clocks.wrap("recording", Answers, name)
    for name in ("finish", "keep_plan", "begin_new"):
        clocks.wrap("recording", Store, name)
    from ndctl.report import lines
    from ndctl.workflow import gathered, judge_rack

    clocks.wrap("rendering", lines, "as_plain")
    clocks.wrap("checks", judge_rack, "judge_rack")
    gathered.judge_rack = judge_rack.judge_rack  # type: ignore[attr-defined]


def _entrances(module: ModuleType) -> list[str]:
    """Functions of a parser's module that other rooms may call on a text."""
    return [
        name
        for name, one in vars(module).items()
        if inspect.isfunction(one) and one.__module__ == module.__name__ and name in ("parse", "processes", "facts")
    ]
