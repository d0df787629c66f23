"""`grep -H . FILE…` listings of small kernel files: one `path:value` a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE = re.compile(r"^(?P<path>/\S*?):(?P<value>.*)$")
_COUNTER = re.compile(
    r"/infiniband/(?P<device>[^/]+)/ports/(?P<port>\d+)/(?:hw_)?counters/(?P<name>[^/]+)$",
)


@dataclass(frozen=True, slots=True)
class Counter:
    device: str
    port: int
    name: str


def lines(text: str) -> Iterator[tuple[str, str]]:
    """(path, value) of every line of that shape; other lines are passed over."""
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match:
            yield match["path"], match["value"].strip()


def counters(text: str) -> dict[Counter, int]:
    """InfiniBand counters of a listing; a value that is no number is left out."""
    found: dict[Counter, int] = {}
    for path, value in lines(text):
        match = _COUNTER.search(path)
        if match and value.isascii() and value.isdigit():
            found[Counter(match["device"], int(match["port"]), match["name"])] = int(value)
    return found
