"""stdout is the answer, stderr the story: the only two ways a verb prints."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndctl.model.events import Event
    from ndctl.model.findings import Judgement, Run


def verbosity() -> int:
    return int(os.environ.get("NDCTL_VERBOSE", "0") or 0)


def emit(text: str) -> None:
    """The answer, as it is."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def say(text: str) -> None:
    """A line of the story."""
    sys.stderr.write(text.rstrip("\n") + "\n")
    sys.stderr.flush()


def note(event: Event) -> None:
    """Events as plain lines on stderr: one a rack and step; what happens to single nodes only with -v."""
    if event.node and verbosity() == 0 and event.status not in ("failed",):
        return
    where = " ".join(part for part in (event.cluster, event.node or event.rack) if part)
    what = " ".join(part for part in (event.step, event.message) if part)
    say(f"{where}  {what}".strip())


def show_run(run: Run) -> None:
    from rich.console import Console

    from ndctl.report.table import as_text, run_lines

    console = Console(highlight=False, soft_wrap=True)
    console.print(as_text(run_lines(run, verbose=verbosity() > 0)), end="")


def show_judgement(judgement: Judgement) -> None:
    from rich.console import Console

    from ndctl.report.table import as_text, judgement_lines

    console = Console(highlight=False, soft_wrap=True)
    console.print(as_text(judgement_lines(judgement)), end="")
