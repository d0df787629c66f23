"""The tree that `nvidia-smi -q` prints: lines and blocks with a label for text and a tag for XML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NA = "N/A"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the report, or a block when it has children. `only`: the one form that has it."""

    label: str
    tag: str
    value: str = ""
    children: tuple[Entry, ...] = ()
    only: Literal["", "text", "xml"] = ""


def block(label: str, tag: str, *children: tuple[str, str, object] | Entry) -> Entry:
    return Entry(label, tag, "", tuple(c if isinstance(c, Entry) else Entry(c[0], c[1], str(c[2])) for c in children))


def all_of(label: str, tag: str, value: object, *pairs: tuple[str, str]) -> Entry:
    """A block whose lines all have one value."""
    return block(label, tag, *((name, child, value) for name, child in pairs))


def yes(value: bool) -> str:
    return "Yes" if value else "No"
