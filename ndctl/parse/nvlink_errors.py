"""`nvidia-smi nvlink --errorcounters`: error counters of each NVLink, both generations of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ndctl.parse.figures import real, whole
from ndctl.parse.nvidia_trouble import Trouble, troubles
from ndctl.parse.nvlink_lines import Block, blocks, headline, restarts

# Older drivers put several counters on a line: `Replay Errors: 0, Recovery Errors: 0, CRC Errors: 0`.
_COUNTER = re.compile(r"([A-Za-z][A-Za-z0-9 /()-]{1,60}?): ?(<?[\w.+-]+>?|\[[^\]]{1,40}\])?(?:[;,]\s*|\s*$)")
_TRAFFIC = re.compile(r"packets|bytes|blocks|data (?:tx|rx)|throughput|^fec errors - \d+$|^raw ", re.IGNORECASE)
_FEC_BIN = re.compile(r"FEC Errors - (\d{1,2})", re.IGNORECASE)
# A listing as nvidia-smi of today prints it, one counter a line: it needs no tidying, and a node's has 2,300 lines.
# What fits no shape lands in the last group.
_PLAIN = re.compile(
    r"^[\t ]*(?:Link (\d{1,3}): ([A-Za-z][A-Za-z0-9 /()-]{0,59}[A-Za-z0-9/()-]): ([\w.+-]+)"
    r"|(GPU \d{1,4}: ?[A-Za-z0-9 ()_.,:/-]{0,300})|(.*\S.*))$",
    re.MULTILINE,
)
_RUN_INTO = re.compile(r"\b(?:GPU|Link) \d")
# What stands after `Link n: `: the text, or its name and figure where they were told apart already.
_Said = str | tuple[str, str]
_Link = tuple[int, _Said]
_SATURATED = {2**32 - 1, 2**64 - 1, 65535}


@dataclass(frozen=True, slots=True)
class LinkErrors:
    """counters: name as printed → count (None where the tool gives none); rates: BER name → value."""

    link: int
    counters: Mapping[str, int | None] = field(default_factory=dict)
    rates: Mapping[str, float | None] = field(default_factory=dict)
    fec: tuple[int | None, ...] = ()  # codewords by number of corrected symbols; bin 0 counts clean codewords
    saturated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuLinkErrors:
    index: int | None
    name: str
    uuid: str
    links: tuple[LinkErrors, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NvlinkErrors:
    """Totals since the driver loaded or the counters were reset, not deltas."""

    gpus: tuple[GpuLinkErrors, ...]
    troubles: tuple[Trouble, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> NvlinkErrors:
    """Every counter under the name it is printed with. Never raises."""
    plain = _plain_blocks(text)
    found: Sequence[tuple[Block, Sequence[_Link]]] = (
        [(block, block.links) for block in blocks(text)[0]] if plain is None else plain[0]
    )
    said = text if plain is None else plain[1]
    gpus = []
    problems: list[str] = []
    for block, links in found:
        for number, part in enumerate(restarts(links)):
            first = number == 0
            gpus.append(
                GpuLinkErrors(
                    index=block.index if first else None,
                    name=block.name if first else "",
                    uuid=block.uuid if first else "",
                    links=_links(part, problems),
                    notes=tuple(block.notes) if first else (),
                )
            )
    return NvlinkErrors(
        gpus=tuple(gpus), troubles=troubles(f"{said}\n{stderr}"), problems=tuple(dict.fromkeys(problems))[:20]
    )


def _plain_blocks(text: str) -> tuple[list[tuple[Block, list[_Link]]], str] | None:
    """The blocks of a listing whose every line has the plain shape, and its distinct wordings, in which a sentence of
    trouble would stand; None for any other text."""
    if not text.isascii():
        return None
    found: list[tuple[Block, list[_Link]]] = []
    names: set[str] = set()
    headlines: list[str] = []
    for link, name, printed, gpu, strange in _PLAIN.findall(text):
        if link:
            if not found:
                found.append((Block(None), []))
            names.add(name)
            found[-1][1].append((int(link), (name, printed)))
        elif gpu and not strange:
            block = headline(gpu)
            if block is None:
                return None
            found.append((block, []))
            headlines.append(gpu)
        else:
            return None
    if any(_RUN_INTO.search(name) for name in names):
        return None  # a headline or another line's beginning within a line
    return found, "\n".join([*headlines, *sorted(names)])


def _links(part: Sequence[_Link], problems: list[str]) -> tuple[LinkErrors, ...]:
    by_link: dict[int, list[_Said]] = {}
    for link, value in part:
        by_link.setdefault(link, []).append(value)
    return tuple(_link(link, _counters(values), problems) for link, values in sorted(by_link.items()))


def _counters(values: list[_Said]) -> Iterable[tuple[str, str | None]]:
    """(name, what is printed as its value)."""
    for value in values:
        if isinstance(value, tuple):
            yield value
        else:
            for match in _COUNTER.finditer(value):
                yield match[1].strip(), match[2]


@lru_cache(maxsize=256)
def _kind(name: str) -> int | str:
    """What a counter is, by its name: the number of an FEC bin, "traffic", "rate" or "count"."""
    fec = _FEC_BIN.fullmatch(name)
    if fec:
        return int(fec[1])
    if _TRAFFIC.search(name):
        return "traffic"
    return "rate" if name.upper().endswith("BER") else "count"


def _link(link: int, printed_counters: Iterable[tuple[str, str | None]], problems: list[str]) -> LinkErrors:
    counters: dict[str, int | None] = {}
    rates: dict[str, float | None] = {}
    fec: dict[int, int | None] = {}
    saturated: list[str] = []
    for name, printed in printed_counters:
        kind = _kind(name)
        if kind == "count":
            count = whole(printed)
            if count in _SATURATED:
                saturated.append(name)
            if printed is None or (count is None and not printed.strip("<>[]").upper().startswith("N")):
                problems.append(f"link {link}: {name} '{printed or ''}'")
            counters[name] = count
        elif kind == "rate":
            rates[name] = real(printed)
        elif isinstance(kind, int):
            fec[kind] = whole(printed)
    bins = tuple(fec.get(number) for number in range(max(fec) + 1)) if fec else ()
    return LinkErrors(link, counters, rates, bins, tuple(saturated))
