"""Samples of `nvidia-smi --query-gpu=… --format=csv`, taken one after the other -> one reading a GPU and sample.

Every sample begins with its own head, so that columns are found by name; a unit may stand in the head or the cell.
Counters are microseconds since the driver was loaded. Field names: `nvidia-smi --help-query-gpu`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.parse.printed import number
from ndctl.parse.tidy import tidy_lines

_COUNTERS = "clocks_event_reasons_counters."
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_FIELDS = {
    "temperature.gpu": "celsius",
    "temperature.memory": "memory_celsius",
    "temperature.gpu.tlimit": "margin_celsius",
    "clocks.sm": "sm_mhz",
    "clocks.current.sm": "sm_mhz",
    "clocks.max.sm": "sm_max_mhz",
    "power.draw": "watts",
    "utilization.gpu": "utilization",
}
_OTHERS = ("index", "pci.bus_id", "gpu_bus_id", "serial", "uuid", *_REASONS)
_UNIT = re.compile(r"\s*\[[^\]]{1,12}\]\s*$|\s*(?:MHz|W|%|us|C)\s*$")
_REFUSED = re.compile(r'Field "([^"]{1,80})" is not a valid field to query')
_MOST_SAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU at one moment; None is what was not told, or N/A. reasons: the bit mask of clock event reasons."""

    index: int
    celsius: float | None = None
    memory_celsius: float | None = None
    margin_celsius: float | None = None
    sm_mhz: float | None = None
    sm_max_mhz: float | None = None
    watts: float | None = None
    utilization: float | None = None
    reasons: int | None = None
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Samples:
    """One mapping of index -> reading for each sample that held any GPU."""

    samples: tuple[Mapping[int, Reading], ...]
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> Samples:
    """Never raises. A row that is shorter or longer than its head is left out: it is torn."""
    whole = text if not stderr else f"{text}\n{stderr}"
    samples: list[dict[int, Reading]] = []
    columns: list[str] = []
    problems = [f"'{name}' is not known to this driver" for name in dict.fromkeys(_REFUSED.findall(whole[:100_000]))]
    unknown: dict[str, None] = {}
    for line in tidy_lines(whole):
        cells = [cell.strip() for cell in line.split(",")]
        names = [_UNIT.sub("", cell).lower() for cell in cells]
        if "index" in names and len(names) > 1:
            columns = names
            unknown |= dict.fromkeys(n for n in names if n not in _FIELDS and n not in _OTHERS and _COUNTERS not in n)
            if len(samples) < _MOST_SAMPLES:
                samples.append({})
        elif columns and len(cells) > 1:
            if len(cells) != len(columns):
                problems.append("a row does not fit its head")
                columns = columns if len(cells) > 2 else []
            elif (reading := _reading(dict(zip(columns, cells, strict=True)))) is not None and samples:
                samples[-1][reading.index] = reading
    return Samples(tuple(s for s in samples if s), tuple(dict.fromkeys(problems))[:20], tuple(unknown)[:40])


def _reading(row: Mapping[str, str]) -> Reading | None:
    index = number(row["index"])
    if index is None or not 0 <= index < 1024 or index != int(index):
        return None
    values = {ours: _value(row.get(name)) for name, ours in _FIELDS.items() if name in row}
    counters = {
        name.removeprefix(_COUNTERS): value
        for name, cell in row.items()
        if name.startswith(_COUNTERS) and (value := _value(cell)) is not None and value >= 0
    }
    mask = next((_mask(row[name]) for name in _REASONS if name in row), None)
    return Reading(index=int(index), reasons=mask, counters=counters, **values)


def _value(cell: str | None) -> float | None:
    return number(_UNIT.sub("", cell)) if cell is not None else None


def _mask(cell: str) -> int | None:
    return int(cell, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", cell) else None
