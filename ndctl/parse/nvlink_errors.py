"""`nvidia-smi nvlink --errorcounters`: error counters of each NVLink, both generations of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ndctl.parse.figures import real, whole
from ndctl.parse.nvidia_trouble import Trouble, troubles
from ndctl.parse.nvlink_lines import Block, blocks, headline, restarts

# Older drivers put several counters on a line: `Replay Errors: 0, Recovery Errors: 0, CRC Errors: 0`.
_COUNTER = re.compile(r"([A-Za-z][A-Za-z0-9 /()-]{1,60}?): ?(<?[\w.+-]+>?|N/A|\[[^\]]{1,40}\])?(?:[;,]\s*|\s*$)")
_TRAFFIC = re.compile(r"packets|bytes|blocks|data (?:tx|rx)|throughput|^fec errors - \d+$|^raw ", re.IGNORECASE)
_FEC_BIN = re.compile(r"FEC Errors - (\d{1,2})", re.IGNORECASE)
# A listing as nvidia-smi of today prints it: all lines of a link together, one counter a line. It needs no tidying,
# and a node's has 2,300 lines, most of which say the same of every link.
_OF_LINK = re.compile(r"^([\t ]*)Link (\d{1,3}): [^\n]*(?:\n\1Link \2: [^\n]*)*$", re.MULTILINE)
_HEADLINE = re.compile(r"\s*^[\t ]*(GPU \d{1,4}: ?[A-Za-z0-9 ()_.,:/-]{0,300})\s*", re.MULTILINE)
_MOVING = re.compile(r"(?:[TR]x (?:packets|bytes): \d{1,40}\n)*")
_PLAIN = re.compile(r"([A-Za-z][A-Za-z0-9 /()-]{0,59}[A-Za-z0-9/()-]): ([\w.+-]+)")
_FEC_HEAD = "\nFEC Errors - 0: "
_MOST_BINS = 32  # GB300 prints 16
# Bins of forward error correction in their order, each behind the ones before it.
_FEC_LINES = re.compile(
    "".join(rf"(?:\nFEC Errors - {number}: (\d{{1,40}})" for number in range(_MOST_BINS))
    + ")?" * (_MOST_BINS - 1)
    + ")"
)
_RUN_INTO = re.compile(r"\b(?:GPU|Link) \d")
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
    plain = _plain_listing(text)
    if plain is not None:
        return NvlinkErrors(gpus=plain[0], troubles=troubles(f"{plain[1]}\n{stderr}"))
    found, _ = blocks(text)
    gpus = []
    problems: list[str] = []
    for block in found:
        for number, part in enumerate(restarts(block.links)):
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
        gpus=tuple(gpus), troubles=troubles(f"{text}\n{stderr}"), problems=tuple(dict.fromkeys(problems))[:20]
    )


def _plain_listing(text: str) -> tuple[tuple[GpuLinkErrors, ...], str] | None:
    """The GPUs of a listing of the plain shape, and its distinct wordings, in which a sentence of trouble would stand;
    None for any other text. Every link's lines are read at once, and what several links say alike only once."""
    if not text.isascii():
        return None
    gpus: list[tuple[Block, list[LinkErrors]]] = []
    wordings: dict[str, None] = {}
    at = 0
    for match in _OF_LINK.finditer(text):
        if not _headlines(text[at : match.start()], gpus, wordings):
            return None
        at = match.end()
        link, head = int(match[2]), f"{match[1]}Link {match[2]}: "
        body, fec, bins = match[0].replace(f"\n{head}", "\n")[len(head) :].partition(_FEC_HEAD)
        moving = _MOVING.match(body)
        fixed = body[moving.end() :] if moving else body
        read = _alike(fixed)
        codewords = _codewords(fec + bins) if fec else ()
        last = gpus[-1][1] if gpus else []
        if read is None or codewords is None or not gpus or (last and last[-1].link >= link):
            return None
        last.append(LinkErrors(link, read.counters, read.rates, codewords, read.saturated))
        wordings[fixed] = None
    if not _headlines(text[at:], gpus, wordings) or not any(links for _, links in gpus):
        return None
    whole_listing = tuple(GpuLinkErrors(one.index, one.name, one.uuid, tuple(links)) for one, links in gpus)
    return whole_listing, "\n".join(wordings)


def _headlines(between: str, gpus: list[tuple[Block, list[LinkErrors]]], wordings: dict[str, None]) -> bool:
    """Take the headlines of GPUs between two links; False where anything else stands there."""
    while between.strip():
        match = _HEADLINE.match(between)
        block = headline(match[1]) if match else None
        if match is None or block is None:
            return False
        gpus.append((block, []))
        wordings[match[1]] = None
        between = between[match.end() :]
    return True


@lru_cache(maxsize=1024)
def _alike(lines: str) -> LinkErrors | None:
    """The counters that these lines of some link tell; None where one needs the link's number or a closer look."""
    told = []
    for line in lines.split("\n"):
        match = _PLAIN.fullmatch(line)
        if match is None or _RUN_INTO.search(line):
            return None
        told.append((match[1], match[2]))
    problems: list[str] = []
    read = _link(0, told, problems)
    return None if problems or read.fec else read


def _codewords(lines: str) -> tuple[int | None, ...] | None:
    """The bins of forward error correction, 0 first; None where a line is of another shape or out of order."""
    match = _FEC_LINES.fullmatch(lines)
    return None if match is None else tuple(map(int, match.groups()[: match.lastindex]))


def _links(part: list[tuple[int, str]], problems: list[str]) -> tuple[LinkErrors, ...]:
    by_link: dict[int, list[str]] = {}
    for link, value in part:
        by_link.setdefault(link, []).append(value)
    return tuple(_link(link, _told(values), problems) for link, values in sorted(by_link.items()))


def _told(values: list[str]) -> Iterable[tuple[str, str | None]]:
    """(name, what is printed as its value)."""
    for value in values:
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
