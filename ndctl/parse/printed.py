"""Numbers as tools print them; what is none is None, never an error."""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?")
_LONGEST = 40  # digits; a longer "number" is noise
_BEYOND = 1e30


def number(text: Any) -> float | None:
    """A float of a printed number or JSON value; None for N/A, nan, inf, booleans, words, and figures too
    large for any measure (sums of such figures would overflow)."""
    if isinstance(text, bool) or text is None:
        return None
    if isinstance(text, (int, float)):
        try:
            value = float(text)
        except OverflowError:
            return None
        return value if abs(value) < _BEYOND else None
    if not isinstance(text, str) or len(text) > _LONGEST or not _NUMBER.fullmatch(text.strip()):
        return None
    value = float(text)
    return value if abs(value) < _BEYOND else None


def integer(text: Any) -> int | None:
    """An int of a printed whole number or JSON value; None for anything else."""
    if isinstance(text, bool) or text is None:
        return None
    if isinstance(text, int):
        return text if abs(text) < 1 << 127 else None
    value = number(text)
    if value is None or value != int(value):
        return None
    if isinstance(text, str) and re.fullmatch(r"[-+]?\d+", text.strip()):
        return int(text)
    return int(value)


def half_step(text: str) -> float:
    """Half of the last printed digit's worth: how far the true value may be from the printed one."""
    mantissa, _, exponent = text.strip().lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    try:
        return 0.5 * 10.0 ** (int(exponent or 0) - decimals)
    except (ValueError, OverflowError):
        return 0.0
