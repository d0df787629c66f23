"""What an isolation works with and gives back: verdicts of groups, the ledger of tests, culprits and paths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class GroupVerdict(StrEnum):
    """What one collective over one group showed."""

    GOOD = "good"
    SLOW = "slow"
    ERROR = "error"
    HANG = "hang"


Group = tuple[T, ...]
# All groups of one call run side by side, so they share no node. One verdict a group, in order.
GroupTest = Callable[[list[tuple[T, ...]]], list[GroupVerdict]]


@dataclass(frozen=True, slots=True)
class Culprit(Generic[T]):
    """A node that fails with different partners each of which is good with others. `partners`: of the last test."""

    node: T
    verdict: GroupVerdict
    partners: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class Path(Generic[T]):
    """Two sets that are good each by itself and fail together, twice. One node each where it could be narrowed."""

    left: tuple[T, ...]
    right: tuple[T, ...]
    verdict: GroupVerdict


@dataclass(frozen=True, slots=True)
class Isolation(Generic[T]):
    """Who is to blame for a failing collective.

    group:      all nodes that were asked about
    culprits:   nodes that stand accused, each after one re-test
    paths:      failing between two sets, while no node of them is to blame
    together:   sets that fail only as a whole: no node, and no pair of halves, is to blame
    undecided:  nodes that could neither be cleared nor accused
    transient:  everything was good when asked again, the full group included
    rest:       the nodes without the culprits, when they were tested as one and were good; else empty
    tests:      groups tested, the first run over all nodes included
    rounds:     how many times groups were tested side by side: the wall time
    reasoning:  one line a step, for people
    """

    group: tuple[T, ...] = ()
    culprits: tuple[Culprit[T], ...] = ()
    paths: tuple[Path[T], ...] = ()
    together: tuple[tuple[T, ...], ...] = ()
    undecided: tuple[T, ...] = ()
    transient: bool = False
    rest: tuple[T, ...] = ()
    tests: int = 0
    rounds: int = 0
    reasoning: tuple[str, ...] = ()


@dataclass(slots=True)
class Ledger(Generic[T]):
    """Counts tests and rounds, remembers who is proven good, and writes down what was concluded.

    minimum: groups smaller than this are padded with proven-good nodes, where there are enough
    """

    test: GroupTest[T]
    name: Callable[[T], str]
    minimum: int = 2
    tests: int = 0
    rounds: int = 0
    good: dict[T, None] = field(default_factory=dict)
    reasoning: list[str] = field(default_factory=list)

    def ask(self, groups: Sequence[tuple[T, ...]], why: str) -> list[GroupVerdict]:
        """One round. Members of a good group are proven good."""
        groups = list(groups)
        verdicts = self.test(groups)
        if len(verdicts) != len(groups):
            raise ValueError(f"{len(groups)} groups were tested and {len(verdicts)} verdicts came back")
        self.tests += len(groups)
        self.rounds += 1
        for group, verdict in zip(groups, verdicts, strict=True):
            if verdict is GroupVerdict.GOOD:
                self.good.update(dict.fromkeys(group))
        told = "; ".join(f"{self.names(g)}: {v.value}" for g, v in zip(groups, verdicts, strict=True))
        self.say(f"round {self.rounds}, {why}: {told}")
        return verdicts

    def say(self, text: str) -> None:
        self.reasoning.append(text)

    def names(self, nodes: Sequence[T]) -> str:
        if len(nodes) > 4:
            return f"{self.name(nodes[0])} … {self.name(nodes[-1])} ({len(nodes)} nodes)"
        return ", ".join(self.name(node) for node in nodes)

    def pads(
        self, members: Collection[T], taken: Collection[T], avoid: Collection[T] = (), last: Collection[T] = ()
    ) -> tuple[T, ...] | None:
        """Proven-good nodes that bring `members` to the minimum; None when they are there but taken in this round.

        Fewer than wanted are given where no more are proven good; () may leave a group of one.
        avoid: partners of earlier tests: not taken if there is anybody else, even if the group stays below the minimum
        last:  taken only after the others
        """
        proven = [node for node in self.good if node not in members]
        pool = [node for node in proven if node not in avoid] or proven
        wanted = min(max(0, self.minimum - len(members)), len(pool))
        free = [node for node in pool if node not in taken]
        if len(free) < wanted:
            return None
        return tuple([*(n for n in free if n not in last), *(n for n in free if n in last)][:wanted])

    def ask_padded(
        self, groups: Sequence[tuple[T, ...]], why: str, avoid: Sequence[Collection[T]] = ()
    ) -> list[tuple[GroupVerdict, tuple[T, ...]]]:
        """(verdict, partners it was padded with) of each; groups share no node. As many rounds as the pads need."""
        results: dict[int, tuple[GroupVerdict, tuple[T, ...]]] = {}
        waiting = list(range(len(groups)))
        while waiting:
            taken: set[T] = set()
            wave: list[tuple[int, tuple[T, ...]]] = []
            for index in waiting:
                # Members of groups that wait are lent to others only where nobody else is left.
                others = {node for other in waiting if other != index for node in groups[other]}
                earlier = avoid[index] if avoid else ()
                pads = None if taken & set(groups[index]) else self.pads(groups[index], taken, earlier, others)
                if pads is not None:
                    wave.append((index, pads))
                    taken.update(groups[index], pads)
            verdicts = self.ask([groups[index] + pads for index, pads in wave], why)
            for (index, pads), verdict in zip(wave, verdicts, strict=True):
                results[index] = (verdict, pads)
            waiting = [index for index in waiting if index not in results]
        return [results[index] for index in range(len(groups))]


def halves(nodes: Sequence[T]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """The first half is the larger one."""
    middle = (len(nodes) + 1) // 2
    return tuple(nodes[:middle]), tuple(nodes[middle:])
