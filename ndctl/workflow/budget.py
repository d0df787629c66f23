"""`--budget`: which active tests of a rack are worth their time, from what each has found before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from ndctl.model.errors import ExitCode, NdctlError

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?\s*[smh]?\s*)+")
_LONGEST_S = 7 * 24 * 3600


class Costed(Protocol):
    """An active check, as far as a budget looks at it."""

    @property
    def id(self) -> str: ...

    @property
    def cost_s(self) -> float: ...


C = TypeVar("C", bound=Costed)
Past = Mapping[str, tuple[int, int]]
"""Check id -> (in how many runs of racks it ran, in how many it found something)."""


def parse_budget(text: str, option: str = "--budget") -> float:
    """ "15m", "90s", "1h", "1h30m", "90" -> seconds. Raises NdctlError, exit 2."""
    told = text.strip().lower()
    seconds = 0.0
    if _WHOLE.fullmatch(told) and len(told) <= 20:
        parts = _PART.findall(told)
        units = [unit for _, unit in parts]
        # Each unit once, the large ones first; a bare number stands alone.
        if (
            sorted(units, key="hms".find) == units
            and len(set(units)) == len(units)
            and ("" not in units or len(units) == 1)
        ):
            seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 1 <= seconds <= _LONGEST_S:
        raise NdctlError(
            "validate.budget",
            f"'{text}' is no time for a {option.strip('-').replace('-', ' ')}",
            hint=f"{option} takes a time such as 90s, 15m or 1h, at most a week",
            exit_code=ExitCode.USAGE,
        )
    return seconds


def spoken(seconds: float) -> str:
    """90 -> "90s", 900 -> "15m", 5400 -> "1h30m": as a person would type it."""
    whole = round(seconds)
    if whole < 120 or whole % 60:
        return f"{seconds:g}s"
    hours, minutes = divmod(whole // 60, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")


def worth(check: Costed, past: Past) -> float:
    """What the check finds in a second of the rack's time: (found + 1) / (runs + 2), by its cost.

    The two added runs, one of which found something, let a check that never ran be tried, and one that found nothing
    in three runs not be given up (Laplace's rule of succession).
    """
    runs, found = past.get(check.id, (0, 0))
    runs = max(0, runs)
    return (min(max(0, found), runs) + 1) / (runs + 2) / max(1.0, check.cost_s)


def by_worth(checks: Iterable[C], past: Past) -> tuple[C, ...]:
    """The checks, what finds most for its time first; of equals the cheap first, then by id."""
    return tuple(sorted(checks, key=lambda check: (-worth(check, past), check.cost_s, check.id)))


def next_that_fits(pending: Sequence[C], left_s: float) -> C | None:
    """The first of `pending` that `left_s` seconds hold; None when they hold none."""
    return next((check for check in pending if check.cost_s <= left_s), None)
