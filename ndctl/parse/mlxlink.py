"""`mlxlink`, text or JSON (also cut): sections of `key : value` about one port."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.parse.figures import real
from ndctl.parse.tidy import straight, tidy_lines

_PAIR = re.compile(r"^\s*([A-Za-z][^:\n]{1,60}?)\s+: ?(.*)$|^\s*([A-Za-z][^:\n]{1,60}?): (.*)$")
_JSON_PAIR = re.compile(r'"([^"\n]{1,80})"\s*:\s*"([^"\n]{0,400})"')
_ERROR = re.compile(r"^-E-|\bError\b.{0,10}:|Failed to|not supported|Permission denied|not found", re.IGNORECASE)
_LANE_RATES = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
_RATED = re.compile(r"(?:IB-)?(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\d{0,3}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MlxLink:
    """values: everything printed, by label in lower case. rate_gbps: from speed and width."""

    state: str = ""
    phys_state: str = ""
    speed: str = ""
    width: str = ""
    rate_gbps: float | None = None
    recommendation: str = ""
    raw_ber: float | None = None
    effective_ber: float | None = None
    symbol_ber: float | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> MlxLink:
    """Never raises."""
    whole = straight(text)
    values: dict[str, str] = {}
    errors: list[str] = []
    if whole.lstrip().startswith("{") or '"Operational Info"' in whole:
        for match in _JSON_PAIR.finditer(whole):
            values.setdefault(match[1].strip().lower(), match[2].strip())
    else:
        for line in tidy_lines(f"{text}\n{stderr}"):
            pair = _PAIR.match(line)
            if _ERROR.search(line) and not pair:
                errors.append(line.strip()[:300])
            elif pair:
                values.setdefault((pair[1] or pair[3]).strip().lower(), (pair[2] or pair[4] or "").strip())
    speed, width = values.get("speed", ""), values.get("width", "")
    return MlxLink(
        state=values.get("state", ""),
        phys_state=values.get("physical state", ""),
        speed=speed,
        width=width,
        rate_gbps=_rate(speed, width),
        recommendation=values.get("recommendation", ""),
        raw_ber=_ber(values, "raw physical ber"),
        effective_ber=_ber(values, "effective physical ber"),
        symbol_ber=_ber(values, "symbol ber"),
        values=dict(list(values.items())[:400]),
        errors=tuple(errors[:20]),
    )


def _ber(values: Mapping[str, str], label: str) -> float | None:
    return real(values.get(label))


def _rate(speed: str, width: str) -> float | None:
    lanes = real(width.lower().replace("x", ""))
    generation = _RATED.search(speed)
    if generation and lanes is not None:
        return lanes * _LANE_RATES[generation[1].upper()]
    ethernet = re.match(r"(\d{1,4})G", speed)
    return float(ethernet[1]) if ethernet else None
