"""Bars: what each part of the benchmark holds its figures to, printed in one form.

    BAR name value limit ok|MISSED
    BAR name - limit skipped (reason)

A bar is skipped only when what it compares with is not there (a peer that is not installed). Under CI=true or
`--strict` that is a miss: a comparison nobody makes proves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure and the most it may be. value None: it could not be measured, a miss; `skipped`: why it was not."""

    name: str
    value: float | None
    limit: float
    skipped: str = ""

    @property
    def held(self) -> bool:
        return self.value is not None and self.value <= self.limit

    @property
    def line(self) -> str:
        if self.skipped:
            return f"BAR {self.name} - {self.limit:g} skipped ({self.skipped})"
        value = "-" if self.value is None else f"{self.value:.3f}"
        return f"BAR {self.name} {value} {self.limit:g} {'ok' if self.held else 'MISSED'}"


def tell(bars: Iterable[Bar], *, strict: bool) -> int:
    """Print every bar; the exit status: 1 when one is missed, or skipped where none may be."""
    status = 0
    for bar in bars:
        print(bar.line, flush=True)
        if strict if bar.skipped else not bar.held:
            status = 1
    return status


def strict_by_default() -> bool:
    return os.environ.get("CI") == "true"
