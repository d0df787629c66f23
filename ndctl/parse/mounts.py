"""/proc/mounts: one mounted file system a line: device, mount point, kind, options, and two zeros."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    device: str
    point: str
    kind: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mounts:
    """unknown_fields: lines that are no mount, the first few."""

    mounts: tuple[Mount, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> Mounts:
    """Never raises; a line cut off in its middle is no mount."""
    return of_lines(text.split("\n"))


def of_lines(lines: Iterable[str]) -> Mounts:
    mounts: list[Mount] = []
    strange: list[str] = []
    for line in lines:
        words = line.split()
        if len(words) == 6 and words[1].startswith("/") and words[4].isdigit() and words[5].isdigit():
            mounts.append(Mount(_plain(words[0]), _plain(words[1]), words[2], tuple(words[3].split(","))))
        elif words and len(strange) < 5:
            strange.append(line.strip()[:120])
    return Mounts(tuple(mounts), tuple(strange))


def _plain(word: str) -> str:
    """Blanks, tabs, line ends and backslashes in names are written as three octal digits."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), word)
