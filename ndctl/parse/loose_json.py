"""JSON as it is found in pasted text: behind a launcher's noise, with bare nan and inf, or cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ndctl.parse.pasted import lines

_START = re.compile(r"^[ \t]*([{\[])", re.MULTILINE)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],"]')
# A value C's printf wrote that JSON does not know.
_BARE = re.compile(r"([:\[,]\s{0,40})[-+]?(?:nan(?:\([^)]{0,20}\))?|inf(?:inity)?)(?=\s{0,40}[,}\]])", re.IGNORECASE)
_MOST_STARTS = 24
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON value in a text. `complete` is false where it was cut or broken and only its front could be read."""

    value: Any
    complete: bool
    end: int


def objects(text: str) -> Iterator[Found]:
    """The JSON objects and arrays that begin a line, one after another; a broken one is read as far as it goes."""
    if "<std" in text:
        text = "\n".join(lines(text))
    if _BARE.search(text):
        text = _BARE.sub(r"\1null", text)
    position, tries = 0, 0
    while tries < _MOST_STARTS and (start := _START.search(text, position)):
        found = read(text, start.start(1))
        tries += 0 if found and found.complete else 1
        if found is None:
            position = start.end()
            continue
        yield found
        position = max(found.end, start.end())


def read(text: str, start: int) -> Found | None:
    """The value that begins at `start`; None where there is none worth the name."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
        return Found(value, True, end)
    except json.JSONDecodeError as error:
        broken_at = error.pos
    except (ValueError, RecursionError):
        return None
    front = _closed(text[start:broken_at])
    if front is None:
        return None
    try:
        value = json.loads(front)
    except (ValueError, RecursionError):
        return None
    return Found(value, False, broken_at) if value else None


def _closed(front: str) -> str | None:
    """The text up to its last whole member, with what is open closed."""
    open_ones: list[str] = []
    best: tuple[int, tuple[str, ...]] | None = None
    for token in _TOKEN.finditer(front):
        mark = token[0]
        if mark in "{[":
            open_ones.append("}" if mark == "{" else "]")
            if len(open_ones) > _DEEPEST:
                return None
            best = (token.end(), tuple(open_ones))
        elif mark in "}]":
            if not open_ones or open_ones.pop() != mark:
                return None
            best = (token.end(), tuple(open_ones))
        elif mark == ",":
            best = (token.start(), tuple(open_ones))
        elif mark == '"':
            break  # a string that never ends
    if best is None:
        return None
    end, closers = best
    return front[:end] + "".join(reversed(closers))
