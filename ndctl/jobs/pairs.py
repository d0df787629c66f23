"""Non-overlapping pairs: every node meets every other once, and no node is in two pairs of a round."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


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


def both_ways(items: Sequence[H]) -> Iterator[tuple[tuple[H, H], ...]]:
    """The same rounds, with the pairs turned so that in rounds 1 and 2, 3 and 4, … every item is once first and once
    second (where it takes part in both)."""
    every = rounds(items)
    while block := list(islice(every, 2)):
        yield from _turned(block) if len(block) == 2 else block


def _turned(block: Sequence[tuple[tuple[H, H], ...]]) -> list[tuple[tuple[H, H], ...]]:
    """Two rounds together are rings and chains; walking along them gives each pair its direction."""
    partner = [{a: b for one, other in pairs for a, b in ((one, other), (other, one))} for pairs in block]
    first: list[dict[H, H]] = [{}, {}]  # who comes first in each pair, of each round
    items = list(dict.fromkeys([*partner[0], *partner[1]]))
    # Chains begin where an item is idle in a round; begun anywhere else they would fall apart.
    items.sort(key=lambda item: item in partner[0] and item in partner[1])
    for start in items:
        item, turn = start, 0 if start in partner[0] else 1
        while item in partner[turn]:
            other = partner[turn][item]
            if item in first[turn] or other in first[turn]:
                break
            first[turn][item] = other
            item, turn = other, 1 - turn
    return [tuple((a, b) if a in first[i] else (b, a) for a, b in pairs) for i, pairs in enumerate(block)]
