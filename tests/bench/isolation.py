"""How well a bad part is located: false accusations, misses and tests spent, over many random racks.

    python -m tests.bench.isolation [RUNS]

Each run draws d bad endpoints, slower by 10 to 50 %. A group is as fast as its slowest member, measured with 1 %
noise, and slow below 95 %. The peer figures are the cost of plain bisection with known-good padding and no re-test at
18 endpoints; here each accused part is also tested once more, and the rest is proven good at the end.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from ndctl.jobs.isolate import isolate
from ndctl.jobs.isolation import GroupVerdict, Isolation

RUNS = 2000
_NOISE = 0.01
_SLOW_BELOW = 0.95
_PLAIN_BISECTION_AT_18 = {1: 9.4, 2: 14.3, 3: 17.8}
_MOST_WRONG = 0.005
_MOST_TESTS = 1.3


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the table; shares are of runs."""

    size: int
    bad: int
    disturbed: float
    accused_wrongly: float
    missed: float
    tests: float
    most_tests: int
    rounds: float
    most_rounds: int


def one_run(size: int, bad: int, disturbed: float, chance: random.Random) -> tuple[Isolation[int], set[int]]:
    """The isolation and the truth. disturbed: share of tests that something else makes slow."""
    speeds = {node: 1 - chance.uniform(0.1, 0.5) for node in chance.sample(range(size), bad)}

    def test(groups: Sequence[tuple[int, ...]]) -> list[GroupVerdict]:
        verdicts = []
        for group in groups:
            speed = min(speeds.get(node, 1.0) for node in group) * chance.gauss(1.0, _NOISE)
            slow = speed < _SLOW_BELOW or chance.random() < disturbed
            verdicts.append(GroupVerdict.SLOW if slow else GroupVerdict.GOOD)
        return verdicts

    return isolate(range(size), test), set(speeds)


def cell(size: int, bad: int, runs: int, disturbed: float = 0.0) -> Cell:
    chance = random.Random(f"{size}/{bad}/{disturbed}")
    wrong = missed = 0
    tests, rounds = [], []
    for _ in range(runs):
        found, truth = one_run(size, bad, disturbed, chance)
        accused = {culprit.node for culprit in found.culprits}
        wrong += bool(accused - truth)
        missed += bool(truth - accused)
        tests.append(found.tests)
        rounds.append(found.rounds)
    return Cell(size, bad, disturbed, wrong / runs, missed / runs, mean(tests), max(tests), mean(rounds), max(rounds))


def main(runs: int = RUNS) -> int:
    """Print the table and the bars; 1 when a bar is missed."""
    cells = [cell(size, bad, runs) for size in (18, 72) for bad in range(5)]
    cells += [cell(18, bad, runs, disturbed=0.01) for bad in range(4)]
    print(f"{runs} runs a cell, faults 10 to 50 %, noise 1 %")
    print("endpoints  bad  disturbed  accused wrongly  missed   tests mean/max  rounds mean/max")
    for one in cells:
        print(
            f"{one.size:9d}  {one.bad:3d}  {one.disturbed:8.0%}  {one.accused_wrongly:14.2%}  {one.missed:6.2%}"
            f"  {one.tests:9.1f} / {one.most_tests:<3d}  {one.rounds:9.1f} / {one.most_rounds:<3d}"
        )
    held = True
    for one in cells:
        if one.bad > 3 or one.disturbed:
            continue
        for words, share in (("accused-wrongly", one.accused_wrongly), ("missed", one.missed)):
            held &= _bar(f"isolation-{words}-{one.size}-endpoints-{one.bad}-bad", share, _MOST_WRONG, "{:.2%}")
        if one.size == 18 and one.bad in _PLAIN_BISECTION_AT_18:
            limit = _MOST_TESTS * _PLAIN_BISECTION_AT_18[one.bad]
            held &= _bar(f"isolation-mean-tests-{one.size}-endpoints-{one.bad}-bad", one.tests, limit, "{:.1f}")
    return 0 if held else 1


def _bar(what: str, value: float, limit: float, form: str) -> bool:
    held = value < limit
    print(f"BAR {what} {form.format(value)} {form.format(limit)} {'ok' if held else 'MISSED'}")
    return held


if __name__ == "__main__":
    sys.exit(main(*(int(text) for text in sys.argv[1:2])))
