"""Words and figures of nvidia-smi, ibstat and their kin; what is no figure is None, never zero."""

from __future__ import annotations

import re

_FIGURE = re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,4})?")
_NO_VALUE = {
    "",
    "n/a",
    "not supported",
    "requested functionality has been deprecated",
    "insufficient permissions",  # of single fields, e.g. power smoothing, where the user is not root
}
_TOO_LONG = 40  # digits beyond any counter; int() of a megabyte of digits would take for ever


def whole(value: str | None) -> int | None:
    """`12`, `12 MiB`, `1,234`, `0x1f`, `16x` → int; `N/A`, `[Not Supported]`, `ERR!` → None."""
    if value is None:
        return None
    if len(value) <= _TOO_LONG and value.isascii() and value.isdigit():
        return int(value)  # nearly all of them
    text = value[:80].strip().replace(",", "")
    if text[:2].lower() == "0x":
        digits = re.match(r"0[xX]([0-9a-fA-F]{1,32})", text)
        return int(digits[1], 16) if digits else None
    match = re.match(r"[-+]?\d+", text)
    return int(match[0]) if match and len(match[0]) <= _TOO_LONG else None


def real(value: str | None) -> float | None:
    """`53.125 GB/s`, `1e-12`, `-5 C` → float; words → None."""
    if value is None:
        return None
    match = _FIGURE.match(value[:80].strip())
    figure = float(match[0]) if match and len(match[0]) <= _TOO_LONG else None
    return figure if figure is not None and abs(figure) < 1e30 else None  # beyond any measure: sums would overflow


def yes(value: str | None) -> bool | None:
    """Yes/No, True/False, Enabled/Disabled, Active/Not Active → bool; anything else → None."""
    if value is None:
        return None
    word = value.strip().lower()
    if word in {"yes", "true", "enabled", "active", "1"}:
        return True
    if word in {"no", "false", "disabled", "not active", "inactive", "0"}:
        return False
    return None


def known(value: str | None) -> str | None:
    """The text itself, or None where the tool says that it has none (`N/A`, `[Not Supported]`, ``) or may not tell."""
    if value is None:
        return None
    text = value.strip()
    if text.strip("[]").lower() in _NO_VALUE:
        return None
    return text


def with_unit(value: str | None, unit: str) -> float | None:
    """A figure that bears its unit (`16x`, `88 C`); without it the figure may be cut short, and is None."""
    if value is None or not value.strip().lower().endswith(unit.lower()):
        return None
    return real(value)
