"""`grep -H . FILE…` listings of small kernel files: one `path:value` a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(r"^(?P<path>/\S*?):(?P<value>.*)$")
_COUNTER = re.compile(
    r"^[ \t]*/[^\s:]*?/infiniband/([^/\s:]+)/ports/(\d+)/(?:hw_)?counters/([^/\s:]+):[ \t]*(\d{1,40})[ \t]*$",
    re.MULTILINE | re.ASCII,
)


class Counter(NamedTuple):
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
    found = _COUNTER.findall(text.replace("\r", "\n"))
    return {Counter(device, int(port), name): int(value) for device, port, name, value in found}
