"""`dcgmi nvlink -s` (link states) and `-e` (error counts) -> facts.

Layout facts: `dcgmi/Nvlink.cpp` of NVIDIA/DCGM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ndctl.parse.tidy import tidy_lines

STATES = {"U": "up", "D": "down", "X": "disabled", "_": "not supported"}
_OWNER = re.compile(r"^\s*(gpuId|physicalId)\s+(\d{1,6})\s*:\s*([UDX_](?:\s+[UDX_])*)?\s*$")
_LINKS = re.compile(r"^\s*[UDX_](?:\s+[UDX_])*\s*$")
_COUNTER = r"((?:CRC|Replay|Recovery|Malformed|Buffer|Rx|Link Integrity|Effective|Symbol|Tx)[\w ]{0,30}?)"
_COUNT = re.compile(rf"Link (\d{{1,3}})\b.{{0,40}}?{_COUNTER}\s*[|:]\s*(\d{{1,20}})", re.IGNORECASE)
_NAMED_COUNT = re.compile(rf"\|\s*(?:->\s*)?{_COUNTER}\s*\|\s*(\d{{1,20}})\s*\|", re.IGNORECASE)
_LINK_HEAD = re.compile(r"\|\s*(?:->\s*)?Link (\d{1,3})\s*\|")
_GPU_HEAD = re.compile(r"\|\s*GPU (\d{1,4})\s*\|")
_FAILURE = re.compile(r"Error: |[Hh]ost ?engine|command not found|No GPUs found")


@dataclass(frozen=True, slots=True)
class Link:
    link: int
    state: str


@dataclass(frozen=True, slots=True)
class Owner:
    index: int
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class LinkError:
    gpu: int | None
    link: int | None
    counter: str
    count: int


@dataclass(frozen=True, slots=True)
class DcgmiNvlink:
    gpus: tuple[Owner, ...]
    switches: tuple[Owner, ...]
    counters: tuple[LinkError, ...]
    complete: bool
    errors: tuple[str, ...]
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> DcgmiNvlink:
    """Facts of the output; `stderr` is read after it. Never raises."""
    owners: dict[tuple[str, int], str] = {}
    counters: list[LinkError] = []
    errors: list[str] = []
    current: tuple[str, int] | None = None
    gpu: int | None = None
    link: int | None = None
    complete = False
    for line in tidy_lines(text if not stderr else f"{text}\n{stderr}"):
        if owner := _OWNER.match(line):
            current = (owner[1], int(owner[2]))
            owners[current] = owner[3] or ""
        elif current and _LINKS.match(line):
            owners[current] += f" {line}"
        elif line.lstrip().startswith("Key:"):
            complete = True
        elif _FAILURE.search(line):
            errors.append(line.strip()[:300])
        elif head := _GPU_HEAD.search(line):
            gpu = int(head[1])
        elif count := _COUNT.search(line):
            counters.append(LinkError(gpu, int(count[1]), count[2].strip(), int(count[3])))
        elif named := _NAMED_COUNT.search(line):
            counters.append(LinkError(gpu, link, named[1].strip(), int(named[2])))
        elif link_head := _LINK_HEAD.search(line):
            link = int(link_head[1])
    return DcgmiNvlink(
        gpus=_owned(owners, "gpuId"),
        switches=_owned(owners, "physicalId"),
        counters=tuple(counters),
        complete=complete or bool(counters),
        errors=tuple(errors),
    )


def _owned(owners: dict[tuple[str, int], str], kind: str) -> tuple[Owner, ...]:
    return tuple(
        Owner(index, tuple(Link(place, STATES[mark]) for place, mark in enumerate(marks.split())))
        for (name, index), marks in owners.items()
        if name == kind
    )
