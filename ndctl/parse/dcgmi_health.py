"""`dcgmi health -c`, table or JSON, and the lines other tools make of its incidents -> facts.

Layout facts: `dcgmi/Health.cpp` and `dcgmlib/dcgm_errors.h` of NVIDIA/DCGM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ndctl.parse.loose_json import objects
from ndctl.parse.tidy import tidy_lines

_OVERALL = re.compile(r"Overall Health\s*\|?:?\s*\"?(Healthy|Warning|Failure)", re.IGNORECASE)
_CELLS = re.compile(r"^\s*\|(.{0,80}?)\|(.{0,200})\|\s*$")
_SYSTEM = re.compile(
    r"((?:PCIe|NVLINK|PMU|MCU|Memory|SM|InfoROM|Thermal|Power|ConnectX) system|Driver|NvSwitch \S{1,10})"
)
_STATE = re.compile(r"\b(Healthy|Warning|Failure)\b")
_CODE = re.compile(r"\b(DCGM_FR_\w{2,60})\b")
_GPU = re.compile(r"\bGPU[: ]\s?(\d{1,4})\b")
_NOT_WATCHED = re.compile(r"Health watches not enabled|Unable to (?:check|get) health watches|Host engine|hostengine"
                          r"|unable to establish a connection|command not found", re.IGNORECASE)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Incident:
    """entity: "GPU 0"; system: "NVLINK system"; state: "warning" or "failure"; code: DCGM_FR_*; "" where not told."""

    entity: str
    system: str
    state: str
    text: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class DcgmiHealth:
    """overall: healthy · warning · failure, None where the text does not say."""

    overall: str | None
    incidents: tuple[Incident, ...]
    errors: tuple[str, ...]
    complete: bool
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> DcgmiHealth:
    """Facts of the output; `stderr` is read after it. Never raises."""
    whole = text if not stderr else f"{text}\n{stderr}"
    lines = tidy_lines(whole)
    overall: str | None = None
    incidents: list[Incident] = []
    errors: list[str] = []
    entity = system = state = ""
    closed = False
    for line in lines:
        if match := _OVERALL.search(line):
            overall = _worse(overall, match[1].lower())
            closed = False
        elif cells := _CELLS.match(line):
            closed = False
            name, value = cells[1].strip(" ->"), cells[2].strip()
            if re.fullmatch(r"(?:GPU|CPU|NvSwitch|Switch)(?: ID)?:?\s*\d{0,4}", name) and not value:
                entity = name
            elif name.isdigit() or re.fullmatch(r"(?:GPU|CPU)\s?\d{1,4}", name):
                entity = f"{entity.split(' ')[0] or 'GPU'} {name.split()[-1]}" if name.isdigit() else name
            found = _SYSTEM.search(name) or _SYSTEM.search(value)
            level = _STATE.search(value)
            if found:
                system, state = found[1], (level[1].lower() if level else "")
                if state and state != "healthy":
                    incidents.append(Incident(entity, system, state, ""))
            elif value and not level and incidents and not name:
                last = incidents[-1]
                text_so_far = f"{last.text} {value}".strip()
                incidents[-1] = Incident(last.entity, last.system, last.state, text_so_far, _code(text_so_far))
        elif re.match(r"^\s*\+[-=]+\+", line):
            closed = True
        elif _CODE.search(line):
            gpu = _GPU.search(line)
            incidents.append(Incident(f"GPU {gpu[1]}" if gpu else "", "", "", line.strip()[:300], _code(line)))
        elif _NOT_WATCHED.search(line):
            errors.append(line.strip()[:300])
        elif incidents and not incidents[-1].system and line.startswith(" ") and line.strip():
            last = incidents[-1]
            incidents[-1] = Incident(last.entity, "", "", f"{last.text} {line.strip()}"[:400], last.code)
    if '"Overall Health"' in whole and overall is None:
        overall = _json_overall(whole)
    return DcgmiHealth(overall, tuple(incidents), tuple(errors), complete=closed or whole.rstrip().endswith("}"))


def _code(text: str) -> str:
    match = _CODE.search(text)
    return match[1] if match else ""


def _worse(first: str | None, second: str) -> str:
    order = ("healthy", "warning", "failure")
    return max(first or "healthy", second, key=order.index)


def _json_overall(text: str) -> str | None:
    for found in objects(text):
        said = _find(found.value, "Overall Health")
        if isinstance(said, str) and said.lower() in ("healthy", "warning", "failure"):
            return said.lower()
    return None


def _find(value: Any, key: str, depth: int = 0) -> Any:
    if depth > 8:
        return None
    if isinstance(value, dict):
        if key in value:
            inner = value[key]
            return inner.get("value") if isinstance(inner, dict) else inner
        return next((hit for child in value.values() if (hit := _find(child, key, depth + 1)) is not None), None)
    if isinstance(value, list):
        return next((hit for child in value if (hit := _find(child, key, depth + 1)) is not None), None)
    return None
