"""`nvidia-smi topo -m`: how each pair of GPUs and NICs is connected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.parse.nvidia_trouble import Trouble, troubles
from ndctl.parse.tidy import tidy_lines

_DEVICE = re.compile(r"^(?:GPU|NIC)\d{1,3}$|^mlx\d_\w{1,20}$", re.IGNORECASE)
_CELL = re.compile(r"^(?:X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|PSB|C2C|SAME|OTH|ERR!?|N/A)$")
_LEGEND_NIC = re.compile(r"^\s*(NIC\d{1,3}): ?(\S{1,40})\s*$")


@dataclass(frozen=True, slots=True)
class Topo:
    """links: row device → column device → NV18 · SYS · …; rows in the order printed."""

    columns: tuple[str, ...] = ()
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    nics: Mapping[str, str] = field(default_factory=dict)
    cpu_affinity: Mapping[str, str] = field(default_factory=dict)
    troubles: tuple[Trouble, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name.upper().startswith("GPU"))


def parse(text: str, stderr: str = "") -> Topo:
    """Cells are told by their words, so tabs or blanks may stand between them. Never raises."""
    columns: list[str] = []
    links: dict[str, dict[str, str]] = {}
    nics: dict[str, str] = {}
    affinity: dict[str, str] = {}
    problems: list[str] = []
    extra = False
    found = tidy_lines(text)
    for line in found:
        words = line.replace("|", " ").split()
        if not words:
            continue
        legend = _LEGEND_NIC.match(line)
        if legend:
            nics[legend[1]] = legend[2]
            continue
        devices = [word for word in words if _DEVICE.match(word)]
        if len(devices) > 1 and devices == words[: len(devices)]:
            columns = devices[:512]
            extra = len(words) > len(devices)
        elif columns and _DEVICE.match(words[0]) and len(links) < 512:
            cells: list[str] = []
            for word in words[1:]:
                if not _CELL.match(word) or len(cells) == len(columns):
                    break
                cells.append(word)
            ends_here = len(words) == 1 + len(cells) and line is found[-1]
            if ends_here and cells and (len(cells) < len(columns) or extra):
                cells.pop()  # NV18 cut to NV1 is no NV1
            if len(cells) < len(columns):
                problems.append(f"row {words[0]} has {len(cells)} of {len(columns)} columns")
            links[words[0]] = dict(zip(columns, cells, strict=False))
            rest = words[1 + len(cells) :]
            if rest:
                affinity[words[0]] = rest[0]
    return Topo(tuple(columns), links, nics, affinity, troubles(f"{text}\n{stderr}"), tuple(problems[:20]))
