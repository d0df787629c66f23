"""The common frame of `nvidia-smi nvlink` outputs: `GPU n: name (UUID: …)` above `Link n: …` lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ndctl.parse.tidy import tidy_lines

_GPU = re.compile(r"\bGPU (\d{1,4}): ?(.*)$")
_UUID = re.compile(r"\(UUID: ?([^)]*)\)?")
_LINK = re.compile(r"\bLink (\d{1,3}): ?(.*)$")
_NOTE = re.compile(r"\bNVML: ?(.{4,200})|(Unable to retrieve NVLink.{0,160})", re.IGNORECASE)

T = TypeVar("T")


@dataclass(slots=True)
class Block:
    """Lines under one GPU. index is None where the head of the listing is missing."""

    index: int | None
    name: str = ""
    uuid: str = ""
    links: list[tuple[int, str]] = field(default_factory=list)  # (link, what follows the colon)
    notes: list[str] = field(default_factory=list)


def blocks(text: str) -> tuple[list[Block], list[str]]:
    """Blocks in order, the same GPU's repeated headline opening a new one; and the lines that fit no shape."""
    found: list[Block] = []
    strange: list[str] = []
    for line in tidy_lines(text):
        block = headline(line)
        if block is not None:
            found.append(block)
            continue
        link = _LINK.search(line)
        if link:
            if not found:
                found.append(Block(None))
            found[-1].links.append((int(link[1]), link[2].strip()))
            continue
        note = _NOTE.search(line)
        if note:
            if not found:
                found.append(Block(None))
            found[-1].notes.append((note[1] or note[2]).strip())
        elif line.strip():
            strange.append(line.strip())
    return found, strange


def headline(line: str) -> Block | None:
    """The empty block that a `GPU n: …` line opens; None for any other line."""
    gpu = _GPU.search(line)
    if gpu is None:
        return None
    uuid = _UUID.search(gpu[2])
    name = gpu[2][: uuid.start()] if uuid else gpu[2]
    return Block(int(gpu[1]), name.strip(" ("), uuid[1].strip() if uuid else "")


def restarts(links: Sequence[tuple[int, T]]) -> Iterator[list[tuple[int, T]]]:
    """Links of one block, cut where the numbering starts over (a GPU headline is missing there)."""
    part: list[tuple[int, T]] = []
    seen: set[int] = set()
    for link, value in links:
        if link in seen and link < part[-1][0]:
            yield part
            part, seen = [], set()
        part.append((link, value))
        seen.add(link)
    yield part
