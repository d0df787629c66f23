"""Lines of an answer for people: what they say, how they are coloured and where they may be folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ndctl.report.plain import one_line

if TYPE_CHECKING:
    from rich.text import Text

_NARROWEST = 40  # below that, folding makes it worse


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    style: a style of `rich`, "" for none
    hang:  column at which a folded line goes on; None when it must not be folded, since it holds a command to copy
    """

    text: str
    style: str = ""
    hang: int | None = 0


def folded(line: Line, width: int | None) -> Iterator[str]:
    """The line as it is (`width` None: a pipe or file, where one finding is one line to grep), or cut at blanks."""
    text = one_line(line.text)
    if width is None or width < _NARROWEST or line.hang is None:
        yield text
        return
    from rich.cells import cell_len

    indent = " " * min(line.hang, width // 2)
    current = ""
    for word in _words(text):
        if current.strip() and cell_len(current) + cell_len(word.rstrip()) > width:
            yield current.rstrip()
            current = indent + word.lstrip()
        else:
            current += word
    yield current.rstrip()


def _words(text: str) -> Iterator[str]:
    """Each word with the blanks behind it; blanks in front of the first one stay with it."""
    start = len(text) - len(text.lstrip(" "))
    begin = 0
    for position in range(start, len(text) - 1):
        if text[position] == " " and text[position + 1] != " ":
            yield text[begin : position + 1]
            begin = position + 1
    yield text[begin:]


def as_plain(lines: Iterable[Line], width: int | None = None) -> str:
    """The lines as text without any style, each ending in a line end."""
    return "".join(f"{part}\n" for line in lines for part in folded(line, width))


def as_text(lines: Iterable[Line], width: int | None = None) -> Text:
    """The lines as one rich Text: markup in them is shown as it is written, and nothing is folded further."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore")
    for line in lines:
        for part in folded(line, width):
            text.append(part + "\n", style=line.style or None)
    return text
