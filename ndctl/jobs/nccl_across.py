"""NCCL between two racks: node k of one with node k of the other, rotating by one, all pairs of a turn side by side.

Two turns give every node two partners. Where a pair is bad, two more turns tell a bad node from a bad path, and a path
is asked once more before it is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ndctl.jobs.active.base import Outcome, RackUnderTest
from ndctl.jobs.judge_across import PairRun, bad_paths, judge_across, marked
from ndctl.jobs.nccl_asked import NET_IB, Asked, rails, with_environment
from ndctl.jobs.nccl_bench import Bench, CannotGoOn
from ndctl.model.places import Node
from ndctl.profiles.schema import Profile

_SCREEN_TURNS = 2
_MOST_TURNS = 4
_DEADLINE_S = 120.0


def across_racks(check: str, profile: Profile) -> Asked:
    return Asked(
        check,
        "all_reduce",
        "infiniband",
        NET_IB,
        name="all_reduce-across",
        title="all_reduce across racks",
        rails=rails(profile),
    )


def rotating(left: Sequence[Node], right: Sequence[Node]) -> Iterator[tuple[tuple[Node, Node], ...]]:
    """Turn r: node k of the one with node k + r of the other. Nobody is in two pairs of a turn; of racks of unequal
    size somebody is idle in each."""
    size = max(len(left), len(right))
    for turn in range(size if left and right else 0):
        pairs = ((node, (place + turn) % size) for place, node in enumerate(left))
        yield tuple((node, right[other]) for node, other in pairs if other < len(right))


def run_across(rack: RackUnderTest, check: str) -> Outcome:
    """`rack.nodes` are those of two racks. Findings of one node carry its name, findings of one rack that as subject;
    the others are of both."""
    outcome = Outcome()
    names = list(dict.fromkeys(node.rack for node in rack.nodes))
    if len(names) != 2:
        return outcome.skip(check, rack.rack, f"nodes of {len(names)} racks can be tested; 2 are needed")
    left, right = ([node for node in rack.nodes if node.rack == name] for name in names)
    asked = with_environment(across_racks(check, rack.profile), rack)
    bench = Bench(rack, outcome)
    seen: list[PairRun] = []
    with rack.stopping.ended_by(bench.stop):
        try:
            for number, pairs in enumerate(islice(rotating(left, right), _MOST_TURNS), 1):
                if number > _SCREEN_TURNS and not any(run.bad for run in marked(seen)):
                    break
                seen += _turn(bench, asked, pairs, f"turn{number}")
            paths = bad_paths(marked(seen))
            if paths:
                seen += _turn(bench, asked, paths, "again")
        except CannotGoOn as reason:
            outcome.skip(check, rack.rack, f"not every pair was tested: {reason}")
    outcome.findings += judge_across(marked(seen), check, (names[0], names[1]))
    return outcome


def _turn(bench: Bench, asked: Asked, pairs: Sequence[tuple[Node, Node]], label: str) -> list[PairRun]:
    """Pairs that share a node go one wave after the other."""
    found: list[PairRun] = []
    waiting = list(pairs)
    while waiting:
        taken: set[str] = set()
        wave = []
        for pair in waiting:
            if not taken & {node.name for node in pair}:
                wave.append(pair)
                taken |= {node.name for node in pair}
        waiting = [pair for pair in waiting if pair not in wave]
        bench.go_on()
        subjects = [f"{a.name} ↔ {b.name}" for a, b in wave]
        labels = [f"{label}-{a.name}" for a, _ in wave]
        runs = bench.run(asked, wave, labels, subjects, small=True, deadline_s=_DEADLINE_S)
        for (a, b), shown in zip(wave, runs, strict=True):
            one = PairRun(a, b, shown.verdict, shown.busbw, shown.findings, shown.evidence)
            found.append(one)
            if one.bad:
                bench.say(asked, f"{one.subject}: {one.says}", "failed")
    return found
