"""stdout is the answer, stderr the story: the only two ways a verb prints."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from ndctl.model.errors import ExitCode, NdctlError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ndctl.model.events import Event
    from ndctl.model.findings import Judgement, Run
    from ndctl.report.lines import Line


def verbosity() -> int:
    return int(os.environ.get("NDCTL_VERBOSE", "0") or 0)


def emit(text: str) -> None:
    """The answer, as it is. Raises NdctlError (exit 1) when standard output takes nothing."""
    try:
        _write(sys.stdout, text if text.endswith("\n") else text + "\n")
    except OSError as error:
        raise NdctlError(
            "output.unwritable",
            f"the answer could not be written to standard output: {error.strerror or error}",
            hint="what was done is done all the same",
            exit_code=ExitCode.INTERNAL,
        ) from error


def say(text: str) -> None:
    """A line of the story."""
    tell(sys.stderr, text.rstrip("\n") + "\n")


def note(event: Event) -> None:
    """Events as plain lines on stderr: one a rack and step; what happens to single nodes only with -v."""
    from ndctl.report.plain import one_line

    if event.aside and verbosity() == 0:
        return
    if (event.node or event.type == "rack") and verbosity() == 0 and event.status not in ("failed", "done"):
        return
    if event.node and verbosity() == 0 and event.status == "done":
        return
    where = " ".join(part for part in (event.cluster, event.node or event.rack) if part)
    what = " ".join(part for part in (event.step, event.message) if part)
    say(one_line(f"{where}  {what}".strip()))


def show_run(run: Run) -> None:
    from ndctl.report.table import run_lines

    _show(run_lines(run, verbose=verbosity() > 0))


def show_judgement(judgement: Judgement) -> None:
    from ndctl.report.table import judgement_lines

    _show(judgement_lines(judgement))


def show_raw(text: str) -> None:
    """A node's own text: byte for byte into a pipe or file, with control characters made harmless on a terminal."""
    if _is_terminal(sys.stdout):
        from ndctl.report.plain import shown

        text = shown(text)
    _emit_some(text)


def show_lines(lines: Iterable[Line]) -> None:
    """The answer as lines, coloured and folded for a terminal."""
    _show(lines)


def _show(lines: Iterable[Line]) -> None:
    """Colour and folding are for a terminal; a pipe or file gets one plain line for each line of the answer."""
    from ndctl.report.lines import as_plain, as_text

    on_terminal = _is_terminal(sys.stdout)
    if not on_terminal and not os.environ.get("FORCE_COLOR"):
        _emit_some(as_plain(lines))
        return
    from rich.console import Console

    console = Console(highlight=False)
    width = console.width if on_terminal else None
    if os.environ.get("NO_COLOR"):
        _emit_some(as_plain(lines, width))
        return
    with console.capture() as capture:
        console.print(as_text(lines, width), end="", soft_wrap=True)
    _emit_some(capture.get())


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None: closed before the program began (`>&-`)


def _emit_some(text: str) -> None:
    """Nothing at all stays nothing, where `emit` would print an empty line."""
    if text:
        emit(text)


def tell(stream: TextIO | None, text: str) -> None:
    """Text of the story, as it is: where it can't be told (closed, a full disk), what it is about goes on."""
    if stream is not None:  # None: closed before the program began (`2>&-`)
        with suppress(OSError):
            _write(stream, text)


def _write(stream: TextIO | None, text: str) -> None:
    """What the stream's encoding can't hold is written as an escape: an answer must not end in a UnicodeError.

    A reader that has gone away (`| head`) changes neither what is done nor the exit status. Raises OSError when the
    stream takes nothing, once: what is left in it, and what comes later, goes nowhere.
    """
    if stream is None:
        raise OSError(errno.EBADF, "it is closed")
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(text)
        stream.flush()  # so that it is noticed here, and not at the end of the program
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        if not isinstance(error, BrokenPipeError):
            raise
