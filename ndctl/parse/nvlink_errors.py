"""`nvidia-smi nvlink --errorcounters`: error counters of each NVLink, both generations of names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.parse.figures import real, whole
from ndctl.parse.nvidia_trouble import Trouble, troubles
from ndctl.parse.nvlink_lines import blocks, restarts

# Older drivers put several counters on a line: `Replay Errors: 0, Recovery Errors: 0, CRC Errors: 0`.
_COUNTER = re.compile(r"([A-Za-z][A-Za-z0-9 /()-]{1,60}?): ?(<?[\w.+-]+>?|\[[^\]]{1,40}\])?(?:[;,]\s*|\s*$)")
_TRAFFIC = re.compile(r"packets|bytes|blocks|data (?:tx|rx)|throughput|^fec errors - \d+$|^raw ", re.IGNORECASE)
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


def _links(part: list[tuple[int, str]], problems: list[str]) -> tuple[LinkErrors, ...]:
    by_link: dict[int, list[str]] = {}
    for link, value in part:
        by_link.setdefault(link, []).append(value)
    return tuple(_link(link, values, problems) for link, values in sorted(by_link.items()))


def _link(link: int, values: list[str], problems: list[str]) -> LinkErrors:
    counters: dict[str, int | None] = {}
    rates: dict[str, float | None] = {}
    fec: dict[int, int | None] = {}
    saturated: list[str] = []
    for value in values:
        for match in _COUNTER.finditer(value):
            name, printed = match[1].strip(), match[2]
            bin_number = re.fullmatch(r"FEC Errors - (\d{1,2})", name, re.IGNORECASE)
            if bin_number:
                fec[int(bin_number[1])] = whole(printed)
            elif _TRAFFIC.search(name):
                continue
            elif name.upper().endswith("BER"):
                rates[name] = real(printed)
            else:
                count = whole(printed)
                if count in _SATURATED:
                    saturated.append(name)
                if printed is None or (count is None and not printed.strip("<>[]").upper().startswith("N")):
                    problems.append(f"link {link}: {name} '{printed or ''}'")
                counters[name] = count
    bins = tuple(fec.get(number) for number in range(max(fec) + 1)) if fec else ()
    return LinkErrors(link, counters, rates, bins, tuple(saturated))
