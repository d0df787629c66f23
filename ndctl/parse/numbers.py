"""Numbers as status tools print them, with whatever unit stands behind; what is none is None."""

from __future__ import annotations

import re

_REAL = re.compile(r"\s*([-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))(?![\d.])")
_WHOLE = re.compile(r"\s*([-+]?\d{1,30})(?![\d.])")


def real(text: str) -> float | None:
    """The number a text begins with ("26.562 GB/s" is 26.562); None for N/A and the like."""
    match = _REAL.match(text)
    return float(match[1]) if match else None


def whole(text: str) -> int | None:
    """The whole number a text begins with; None for N/A, fractions and the like."""
    match = _WHOLE.match(text)
    return int(match[1]) if match else None
