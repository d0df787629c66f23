"""Two halves that are good by themselves and fail together: is it a path between them? No node is named for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from ndctl.jobs.isolation import GroupVerdict, Ledger, Path, T, halves


@dataclass(frozen=True, slots=True)
class Boundary(Generic[T]):
    members: tuple[T, ...]
    paths: tuple[Path[T], ...] = ()


def across(ledger: Ledger[T], left: tuple[T, ...], right: tuple[T, ...]) -> Boundary[T]:
    """Paths between `left` and `right`, each proven good alone: mixed halves, narrowed until they can't be."""
    ledger.say(f"{ledger.names(left)} and {ledger.names(right)} are good apart: a path between them, or it has passed")
    return Boundary(left + right, tuple(_narrow(ledger, left, right)))


def _narrow(ledger: Ledger[T], left: tuple[T, ...], right: tuple[T, ...]) -> list[Path[T]]:
    """Mix the halves of both sides; where a mix fails, look inside it."""
    if len(left) == len(right) == 1:
        return _confirmed(ledger, left, right)
    lefts = [half for half in halves(left) if half]
    rights = [half for half in halves(right) if half]
    paths: list[Path[T]] = []
    for turn in range(2):
        mixes = _mixes(lefts, rights, turn)
        asked = ledger.ask_padded([a + b for a, b in mixes], "mixed halves", [left + right for _ in mixes])
        for (a, b), (verdict, _) in zip(mixes, asked, strict=True):
            if verdict is not GroupVerdict.GOOD:
                paths += _narrow(ledger, a, b) or _confirmed(ledger, a, b)
    return paths


def _mixes(
    lefts: list[tuple[T, ...]], rights: list[tuple[T, ...]], turn: int
) -> list[tuple[tuple[T, ...], tuple[T, ...]]]:
    """Two turns bring every left half together with every right half; within a turn no half is used twice."""
    if len(lefts) == 1 or len(rights) == 1:
        all_mixes = [(a, b) for a in lefts for b in rights]
        return all_mixes[turn : turn + 1]
    return [(lefts[0], rights[turn]), (lefts[1], rights[1 - turn])]


def _confirmed(ledger: Ledger[T], left: tuple[T, ...], right: tuple[T, ...]) -> list[Path[T]]:
    """One re-test before a path is told."""
    verdict = ledger.ask([left + right], "the pair again" if len(left + right) == 2 else "the mix again")[0]
    if verdict is GroupVerdict.GOOD:
        ledger.say(f"{ledger.names(left)} and {ledger.names(right)} are good when asked again")
        return []
    ledger.say(f"{ledger.names(left)} and {ledger.names(right)} fail only together: a path, not a node")
    return [Path(left, right, verdict)]
