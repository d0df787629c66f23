"""`nvme smart-log -o json` of several disks: what each says of its own health.

The text holds a line `== NAME MODEL` before each disk's answer; an answer may be JSON (numbers as numbers or as text,
the key `percent_used` or `percentage_used`) or nvme-cli's own table, or the words of a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ndctl.parse.loose_json import objects

_DISK = re.compile(r"^== (?P<name>nvme\d{1,4}(?:n\d{1,4})?)(?: (?P<model>[^\n]{0,80}))?$", re.MULTILINE)
_TABLE = re.compile(r"^(?P<name>[A-Za-z][\w ]{2,60}?)\s*:\s*(?P<value>0x[0-9a-fA-F]+|[\d,.]+)\s*%?", re.MULTILINE)
_NAMES = {
    "critical_warning": "critical_warning",
    "media_errors": "media_errors",
    "percent_used": "percent_used",
    "percentage_used": "percent_used",
    "avail_spare": "spare",
    "available_spare": "spare",
    "spare_thresh": "spare_threshold",
    "available_spare_threshold": "spare_threshold",
}


@dataclass(frozen=True, slots=True)
class Smart:
    """None where the disk does not say. critical_warning is a mask; the others are counts or percent.

    model: "" where the text does not name it. refusal: what was said instead of an answer, one line.
    """

    name: str
    critical_warning: int | None = None
    media_errors: int | None = None
    percent_used: int | None = None
    spare: int | None = None
    spare_threshold: int | None = None
    refusal: str = ""
    model: str = ""

    @property
    def answered(self) -> bool:
        return self.critical_warning is not None and self.media_errors is not None


@dataclass(frozen=True, slots=True)
class SmartFacts:
    """complete: the text has its last word, `== end`."""

    disks: tuple[Smart, ...] = ()
    complete: bool = False
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> SmartFacts:
    """Never raises. A text without `== NAME` is one disk without a name."""
    text, end, _ = text.partition("\n== end")
    marks = list(_DISK.finditer(text))
    if not marks:
        one = _smart("", "", text)
        return SmartFacts((one,) if one.answered else (), bool(end))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    parts = [(mark, text[mark.end() : until]) for mark, until in zip(marks, ends, strict=True)]
    return SmartFacts(
        tuple(_smart(mark["name"], (mark["model"] or "").strip(), said) for mark, said in parts), bool(end)
    )


def _smart(name: str, model: str, answer: str) -> Smart:
    values: dict[str, int] = {}
    for found in objects(answer):
        if isinstance(found.value, Mapping):
            values = _figures({str(key): value for key, value in found.value.items()})
            break
    if not values:
        table = {m["name"].strip().lower().replace(" ", "_"): m["value"] for m in _TABLE.finditer(answer)}
        values = _figures(table)
    said = next((line.strip()[:160] for line in answer.split("\n") if line.strip()), "")
    return Smart(name, **values, refusal="" if values else said or "it said nothing", model=model)


def _figures(values: Mapping[str, Any]) -> dict[str, int]:
    figures: dict[str, int] = {}
    for key, value in values.items():
        name = _NAMES.get(key)
        number = _number(value.get("value") if isinstance(value, Mapping) else value) if name else None
        if name is not None and number is not None:
            figures[name] = number
    return figures


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, float):
        return int(value) if 0 <= value < 2**127 else None
    text = str(value).replace(",", "").strip().rstrip("%")
    if re.fullmatch(r"0x[0-9a-fA-F]{1,32}", text):
        return int(text, 16)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 40 else None
