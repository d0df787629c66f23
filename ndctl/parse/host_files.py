"""Small files of a node in one text, `grep -aH '' FILE…`: each line is the file's path, a colon and a line of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_LINE = re.compile(r"^(?P<path>/?(?:proc|sys|opt|etc|var)/[^:\s]{1,200}):(?P<text>.*)$")
_ERROR = re.compile(r"grep: (?P<path>[^:\s]{1,200}): (?P<why>[A-Z][^\n]{2,80})")
_ABSENT = "No such file or directory"
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class HostFiles:
    """files: path without its leading "/" -> its lines; a file that is empty has no entry.

    absent: paths that are not there, patterns included that fit nothing; refused: path -> why it could not be read.
    complete: the text has its last word, a line `end`.
    unknown_fields: lines of another shape, the first few.
    """

    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False
    unknown_fields: tuple[str, ...] = ()

    def first(self, path: str) -> str:
        """The first line of a file, "" where there is none."""
        return next(iter(self.files.get(path, ())), "").strip()

    def text(self, path: str) -> str:
        return "\n".join(self.files.get(path, ()))

    def under(self, folder: str) -> dict[str, str]:
        """Path -> first line of every file below a folder."""
        return {path: self.first(path) for path in self.files if path.startswith(folder)}


def parse(text: str, stderr: str = "") -> HostFiles:
    """Never raises. What the shell said of files that are not there may stand in `stderr` or in the text."""
    files: dict[str, list[str]] = {}
    strange: list[str] = []
    complete = False
    for line in text.split("\n")[:_MOST]:
        match = _LINE.match(line.rstrip("\r"))
        if match:
            files.setdefault(match["path"].lstrip("/"), []).append(match["text"])
        elif line.strip() == "end":
            complete = True
        elif line.strip() and not _ERROR.search(line) and len(strange) < 5:
            strange.append(line.strip()[:120])
    errors = [(match["path"].lstrip("/"), match["why"].strip()) for match in _ERROR.finditer(f"{text}\n{stderr}")]
    return HostFiles(
        files={path: tuple(lines) for path, lines in files.items()},
        absent=frozenset(path for path, why in errors if why.startswith(_ABSENT)),
        refused={path: why for path, why in errors if not why.startswith(_ABSENT)},
        complete=complete,
        unknown_fields=tuple(strange),
    )


def number_set(text: str, most: int = 65_536) -> frozenset[int] | None:
    """The kernel's lists of numbers: "0-33", "0,2-5"; an empty one is the empty set. None where it is no such list."""
    numbers: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        if not match:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last >= most:
            return None
        numbers.update(range(first, last + 1))
    return frozenset(numbers)
