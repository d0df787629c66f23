"""Non-overlapping pairs: every node meets every other once, and no node is in two pairs of a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def rounds(items: Sequence[T]) -> Iterator[tuple[tuple[T, T], ...]]:
    """The circle method: n-1 rounds of n/2 pairs for even n, n rounds with one idle item each for odd n.

    18 items give 17 rounds of 9 pairs. Fewer than two items give no round.
    """
    circle: list[T | None] = list(items)
    if len(circle) < 2:
        return
    if len(circle) % 2:
        circle.append(None)
    size = len(circle)
    for _ in range(size - 1):
        pairs = []
        for i in range(size // 2):
            left, right = circle[i], circle[size - 1 - i]
            if left is not None and right is not None:
                pairs.append((left, right))
        yield tuple(pairs)
        circle = [circle[0], *circle[2:], circle[1]]
