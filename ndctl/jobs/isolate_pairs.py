"""Many bad parts: rounds of non-overlapping pairs. A pair is as good as its worse end, so a node with one good pair
is good; with d bad nodes, d + 1 rounds of distinct partners give every good node a good partner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic

from ndctl.jobs.isolation import Culprit, GroupVerdict, Ledger, Path, T
from ndctl.jobs.pairs import rounds


@dataclass(slots=True)
class PairsOutcome(Generic[T]):
    culprits: list[Culprit[T]] = field(default_factory=list)
    paths: list[Path[T]] = field(default_factory=list)
    undecided: list[T] = field(default_factory=list)


# The tests that failed with a node in them: who else took part, and what it showed.
Failed = dict[T, list[tuple[frozenset[T], GroupVerdict]]]


def accuse_by_pairs(ledger: Ledger[T], nodes: Sequence[T]) -> PairsOutcome[T]:
    """Pair rounds until everybody not cleared has met more partners than there can be bad ones."""
    failed: Failed[T] = {node: [] for node in nodes}
    for number, pairs in enumerate(rounds(nodes), 1):
        asked = [pair for pair in pairs if not (pair[0] in ledger.good and pair[1] in ledger.good)]
        if asked:
            results = ledger.ask_padded(asked, f"pairs, turn {number}")
            for pair, (verdict, pads) in zip(asked, results, strict=True):
                _note(failed, pair, pads, verdict)
        unclear = [node for node in nodes if node not in ledger.good]
        if number > len(unclear):
            break
    outcome = PairsOutcome[T]()
    doubtful = [node for node in nodes if node not in ledger.good and not _accuse(ledger, node, failed, outcome)]
    _settle(ledger, doubtful, failed, outcome)
    _paths(ledger, failed, outcome)
    return outcome


def _note(failed: Failed[T], group: Sequence[T], pads: Sequence[T], verdict: GroupVerdict) -> None:
    if verdict is not GroupVerdict.GOOD:
        for node in group:
            failed[node].append((frozenset((*group, *pads)) - {node}, verdict))


def _accuse(ledger: Ledger[T], node: T, failed: Failed[T], outcome: PairsOutcome[T]) -> bool:
    """Accused who failed twice with partners all proven good, no partner being there every time."""
    telling = [(others, verdict) for others, verdict in failed[node] if all(other in ledger.good for other in others)]
    if len(telling) < 2 or frozenset.intersection(*(others for others, _ in telling)):
        return False
    partners = [other for other in ledger.good if any(other in others for others, _ in telling)]
    outcome.culprits.append(Culprit(node, telling[-1][1], tuple(partners)))
    ledger.say(f"{ledger.name(node)} fails with {ledger.names(partners)}, all good with others: accused")
    return True


def _settle(ledger: Ledger[T], doubtful: list[T], failed: Failed[T], outcome: PairsOutcome[T]) -> None:
    """Who met too few good partners meets new ones, twice at most; without any, nobody can be told from another."""
    for _ in range(2):
        if not doubtful or not ledger.good:
            break
        met = [{n for others, _ in failed[node] if others <= ledger.good.keys() for n in others} for node in doubtful]
        asked = ledger.ask_padded([(node,) for node in doubtful], "with proven-good partners", met)
        for node, (verdict, pads) in zip(doubtful, asked, strict=True):
            _note(failed, (node,), pads, verdict)
        doubtful = [node for node in doubtful if node not in ledger.good]
        doubtful = [node for node in doubtful if not _accuse(ledger, node, failed, outcome)]
    outcome.undecided += doubtful
    if doubtful:
        ledger.say(f"{ledger.names(doubtful)}: too few nodes proven good are left to tell")


def _paths(ledger: Ledger[T], failed: Failed[T], outcome: PairsOutcome[T]) -> None:
    """Pairs that failed though both ends are good with others: once more, then it is the path."""
    for node in failed:
        for others, _ in failed[node]:
            other = next(iter(others))
            if len(others) == 1 and node in ledger.good and other in ledger.good:
                known = {frozenset((*path.left, *path.right)) for path in outcome.paths}
                if frozenset((node, other)) not in known:
                    outcome.paths += _path(ledger, node, other)


def _path(ledger: Ledger[T], one: T, other: T) -> list[Path[T]]:
    verdict = ledger.ask([(one, other)], "the pair again")[0]
    if verdict is GroupVerdict.GOOD:
        return []
    ledger.say(f"{ledger.name(one)} and {ledger.name(other)} fail only with each other: a path, not a node")
    return [Path((one,), (other,), verdict)]
