"""`nvidia-smi nvlink --status`: which NVLinks of which GPU are up, and how fast."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ndctl.parse.figures import real
from ndctl.parse.nvidia_trouble import Trouble, troubles
from ndctl.parse.nvlink_lines import Block, blocks, restarts

_RATE = re.compile(r"^([\d.]+)\s*(G|T|M)(i?)B/s\b", re.IGNORECASE)
_SCALE = {"G": 1.0, "T": 1000.0, "M": 0.001}
_CUT_RATE = re.compile(r"^[\d.]*\s*(?:[GTM]i?B?/?)?$", re.IGNORECASE)
# `Link 0: Replay Errors: 0` and the like belong to other reports of the same command.
_OTHER_REPORT = re.compile(r"^[A-Za-z][A-Za-z0-9 -]{2,50}: ")


@dataclass(frozen=True, slots=True)
class Link:
    """state: active · inactive · disabled · cut (the line ends too early) · else the tool's own word, lower case."""

    link: int
    state: str
    gb_per_s: float | None


@dataclass(frozen=True, slots=True)
class GpuLinks:
    """index is None where the listing lost the GPU's headline. notes: what NVML says instead of links."""

    index: int | None
    name: str
    uuid: str
    links: tuple[Link, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NvlinkStatus:
    """gpus in the order printed; an identical repeated block counts once."""

    gpus: tuple[GpuLinks, ...]
    troubles: tuple[Trouble, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> NvlinkStatus:
    """GB/s as printed (decimal, one direction). Never raises."""
    found, _ = blocks(text)
    gpus: list[GpuLinks] = []
    unknown: dict[str, None] = {}
    problems: list[str] = []
    for block in found:
        gpus.extend(_gpus(block, unknown, problems))
    return NvlinkStatus(
        gpus=tuple(dict.fromkeys(gpus)),
        troubles=troubles(f"{text}\n{stderr}"),
        problems=tuple(problems[:20]),
        unknown_fields=tuple(list(unknown)[:50]),
    )


def _gpus(block: Block, unknown: dict[str, None], problems: list[str]) -> list[GpuLinks]:
    made = []
    for number, part in enumerate(restarts(block.links)):
        links: dict[int, Link] = {}
        for link, value in part:
            if _OTHER_REPORT.match(value):
                unknown.setdefault(value.split(":", 1)[0])
                continue
            read = _link(link, value)
            if read.state not in {"active", "inactive", "disabled"}:
                problems.append(f"link {link}: '{value[:40]}'")
            before = links.get(link)
            if before is None or (before.state == "active" and read.state != "active"):
                links[link] = read
        first = number == 0
        made.append(
            GpuLinks(
                index=block.index if first else None,
                name=block.name if first else "",
                uuid=block.uuid if first else "",
                links=tuple(links[n] for n in sorted(links)),
                notes=tuple(block.notes) if first else (),
            )
        )
    return made


@lru_cache(maxsize=512)  # links that are well print the same
def _link(link: int, value: str) -> Link:
    rate = _RATE.match(value)
    if rate:
        figure = real(rate[1])
        if figure is not None:
            gb_per_s = figure * _SCALE[rate[2].upper()]
            return Link(link, "active" if gb_per_s > 0 else "inactive", gb_per_s)
    word = value.strip("<>[] .").lower()
    if word.replace("-", "") in {"inactive", "down", "off"}:
        return Link(link, "inactive", None)
    if word == "active" or word == "up":
        return Link(link, "active", None)
    if _CUT_RATE.match(value) or value.startswith("<"):
        return Link(link, "cut", None)
    return Link(link, word[:40], None)
