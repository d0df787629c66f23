"""Locate who makes a collective slow, wrong or hang, with few tests and no false accusation.

A pure algorithm over a callback that tests groups of nodes: bisection whose halves run side by side. A suspect that
is alone is tested with nodes already proven good, and once more with other ones before it is accused. Halves that are
both good hint at a path or at a passing disturbance: `isolate_paths`. More than three bad parts: `isolate_pairs`.

The method is public practice: bisection of collectives with good-node padding, cross-boundary and transient verdicts
(NVIDIA cluster-readiness-engine), pairwise screens (Microsoft SuperBench).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic

from ndctl.jobs.isolate_pairs import accuse_by_pairs
from ndctl.jobs.isolate_paths import Boundary, across
from ndctl.jobs.isolation import Culprit, GroupTest, GroupVerdict, Isolation, Ledger, Path, T, halves

# Bisection costs about d·log2(n/d) tests; beyond three separate bad parts pairs tell sooner.
MOST_BY_BISECTION = 3
_SEARCHES = 2  # what is left after the first accusations may hide one more


def isolate(
    nodes: Sequence[T],
    test: GroupTest[T],
    *,
    known: GroupVerdict | None = None,
    hints: Sequence[T] = (),
    minimum: int = 2,
    name: Callable[[T], str] = str,
) -> Isolation[T]:
    """Who is to blame for what `test` shows over all `nodes`.

    known:   verdict of the run over all nodes, when there was one already; it counts as the first test
    hints:   nodes to look at first, e.g. whose ranks never came up
    minimum: smallest group whose verdict is as sharp as the full group's; at least 2
    """
    everyone = tuple(nodes)
    # A re-test wants other partners, so no group may need more than half of the nodes.
    ledger = Ledger(test, name, max(2, min(minimum, (len(everyone) + 1) // 2)))
    if known is None:
        verdict = ledger.ask([everyone], "all")[0]
    else:
        verdict = known
        ledger.tests = ledger.rounds = 1
        ledger.say(f"round 1, all: {ledger.names(everyone)}: {known.value}")
    found = _Found[T]()
    if verdict is not GroupVerdict.GOOD:
        _search_all(ledger, everyone, verdict, hints, found)
    return Isolation(
        group=everyone,
        culprits=tuple(found.culprits),
        paths=tuple(found.paths),
        together=tuple(found.together),
        undecided=tuple(found.undecided),
        transient=found.transient,
        rest=found.rest,
        tests=ledger.tests,
        rounds=ledger.rounds,
        reasoning=tuple(ledger.reasoning),
    )


@dataclass(slots=True)
class _Found(Generic[T]):
    culprits: list[Culprit[T]] = field(default_factory=list)
    paths: list[Path[T]] = field(default_factory=list)
    together: list[tuple[T, ...]] = field(default_factory=list)
    undecided: list[T] = field(default_factory=list)
    transient: bool = False
    rest: tuple[T, ...] = ()

    @property
    def nobody(self) -> bool:
        return not (self.culprits or self.paths or self.together or self.undecided)


@dataclass(slots=True, eq=False)
class _Case(Generic[T]):
    """A set of suspects of which at least one should be bad if `verdict` is not good."""

    suspects: tuple[T, ...]
    parent: _Case[T] | None = None
    verdict: GroupVerdict | None = None
    partners: tuple[T, ...] = ()
    children: tuple[_Case[T], ...] = ()


def _search_all(
    ledger: Ledger[T], everyone: tuple[T, ...], verdict: GroupVerdict, hints: Sequence[T], found: _Found[T]
) -> None:
    """Search, then prove the rest; what is left may be searched once more."""
    nodes = everyone
    for turn in range(_SEARCHES):
        before = len(found.culprits)
        _search(ledger, nodes, verdict, hints if turn == 0 else (), found)
        if found.paths or found.together or found.undecided:
            return
        accused = {culprit.node for culprit in found.culprits}
        nodes = tuple(node for node in everyone if node not in accused)
        if len(nodes) < 2:
            return
        verdict = ledger.ask([nodes], "all without the accused" if accused else "all once more")[0]
        if verdict is GroupVerdict.GOOD:
            found.rest = nodes if accused else ()
            found.transient = not accused
            ledger.say(
                f"without {', '.join(map(ledger.name, accused))} the others are good"
                if accused
                else "everything is good when asked again: a passing disturbance"
            )
            return
        if turn + 1 == _SEARCHES or len(found.culprits) == before:
            found.together.append(nodes)
            ledger.say(f"{ledger.names(nodes)} fail only all together: no node or pair of halves explains it")
            return
        ledger.good.clear()


def _search(
    ledger: Ledger[T], nodes: tuple[T, ...], verdict: GroupVerdict, hints: Sequence[T], found: _Found[T]
) -> None:
    """One bisection down to single nodes, paths, or the hand-over to pairs."""
    whole = _Case(nodes, verdict=verdict)
    waiting = _split(whole, hints)
    accused: list[_Case[T]] = []
    boundaries: list[_Case[T]] = []
    while waiting:
        ready = [case for case in waiting if len(case.suspects) + len(ledger.good.keys() - case.suspects) >= 2]
        failing = [case for case in accused if case.verdict is not GroupVerdict.GOOD]
        if not ready or len(failing) + len(waiting) // 2 > MOST_BY_BISECTION:
            ledger.say("too many bad parts for bisection: pairs" if ready else "nobody is proven good yet: pairs")
            _take_pairs(ledger, nodes, found)
            return
        asked = ledger.ask_padded([case.suspects for case in ready], "halves")
        for case, (shown, partners) in zip(ready, asked, strict=True):
            case.verdict, case.partners = shown, partners
        waiting = [case for case in waiting if case.verdict is None]
        for case in ready:
            if case.verdict is GroupVerdict.GOOD:
                parent = case.parent
                both = parent is not None and all(child.verdict is GroupVerdict.GOOD for child in parent.children)
                if parent is not None and both and parent not in boundaries:
                    boundaries.append(parent)
            elif len(case.suspects) == 1:
                accused.append(case)
            else:
                waiting += _split(case)
    _retest(ledger, accused, found)
    for case in boundaries:
        left, right = (child.suspects for child in case.children)
        _take_boundary(ledger, across(ledger, left, right), case.suspects == nodes, found)


def _split(case: _Case[T], hints: Sequence[T] = ()) -> list[_Case[T]]:
    """Two children: the hinted nodes and the others, else halves."""
    hinted = tuple(node for node in case.suspects if node in set(hints))
    others = tuple(node for node in case.suspects if node not in set(hints))
    parts = (hinted, others) if hinted and len(others) > 1 else halves(case.suspects)
    case.children = tuple(_Case(part, case) for part in parts)
    return list(case.children)


def _retest(ledger: Ledger[T], accused: Sequence[_Case[T]], found: _Found[T]) -> None:
    """Once more, with other partners. Good then: was it those partners, or has it passed?"""
    if not accused:
        return
    asked = ledger.ask_padded(
        [case.suspects for case in accused], "once more with other partners", [case.partners for case in accused]
    )
    disputed = []
    for case, (verdict, partners) in zip(accused, asked, strict=True):
        if verdict is GroupVerdict.GOOD:
            disputed.append(case)
        else:
            found.culprits.append(Culprit(case.suspects[0], verdict, partners))
            ledger.say(f"{ledger.name(case.suspects[0])} fails with different partners that are good: accused")
    for case in disputed:
        verdict = ledger.ask([case.suspects + case.partners], "the first partners again")[0]
        if verdict is GroupVerdict.GOOD:
            ledger.say(f"{ledger.name(case.suspects[0])} is good when asked again: not accused")
        else:
            found.paths.append(Path(case.suspects, case.partners, verdict))
            ledger.say(f"{ledger.name(case.suspects[0])} fails only with {ledger.names(case.partners)}: a path")


def _take_boundary(ledger: Ledger[T], boundary: Boundary[T], is_whole: bool, found: _Found[T]) -> None:
    found.paths += boundary.paths
    # The whole group is asked again in any case before the search ends.
    if boundary.paths or is_whole:
        return
    verdict = ledger.ask([boundary.members], "the same group again")[0]
    if verdict is not GroupVerdict.GOOD:
        found.together.append(boundary.members)
        ledger.say(f"{ledger.names(boundary.members)} fail only all together")


def _take_pairs(ledger: Ledger[T], nodes: tuple[T, ...], found: _Found[T]) -> None:
    outcome = accuse_by_pairs(ledger, nodes)
    found.culprits += outcome.culprits
    found.paths += outcome.paths
    found.undecided += outcome.undecided
