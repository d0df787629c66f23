"""What most of a rack has. Where no value has more than half of the votes the rack is split, and nobody is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def majority(values: Iterable[T], expected: int = 0) -> T | None:
    """The value that more than half have; None where there is none.

    expected: how many votes there should be. Those that are missing could turn the vote, so they count as against.
    """
    counts = Counter(values)
    if not counts:
        return None
    value, votes = counts.most_common(1)[0]
    return value if 2 * votes > max(sum(counts.values()), expected) else None


def camps(who_has: Mapping[str, str]) -> str:
    """Who -> value, as one text: "9 have 580.95 (rack01-n01, rack01-n02 …), 9 have …"; the largest camp first."""
    by_value: dict[str, list[str]] = {}
    for who, value in who_has.items():
        by_value.setdefault(value, []).append(who)
    ordered = sorted(by_value.items(), key=lambda item: (-len(item[1]), item[0]))
    return ", ".join(f"{len(who)} have {value} ({_some(who)})" for value, who in ordered[:4])


def _some(names: list[str]) -> str:
    return ", ".join(names[:2]) + (" …" if len(names) > 2 else "")
