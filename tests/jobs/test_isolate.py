"""Isolation over a model of a rack: bandwidth is that of the slowest node or path in a group."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndctl.jobs.isolate import isolate
from ndctl.jobs.isolation import GroupVerdict, Isolation

GOOD, SLOW, ERROR, HANG = GroupVerdict.GOOD, GroupVerdict.SLOW, GroupVerdict.ERROR, GroupVerdict.HANG


class Model:
    """`bad` nodes, `paths` that fail only when both ends take part, `blips`: numbers of tests that fail by chance."""

    def __init__(
        self,
        bad: dict[int, GroupVerdict] | None = None,
        paths: Sequence[tuple[int, int]] = (),
        blips: Sequence[int] = (),
        fails_from: int = 10_000,
    ) -> None:
        self.bad = bad or {}
        self.paths = paths
        self.blips = blips
        self.fails_from = fails_from
        self.calls: list[list[tuple[int, ...]]] = []
        self.tests = 0

    def __call__(self, groups: list[tuple[int, ...]]) -> list[GroupVerdict]:
        members = [node for group in groups for node in group]
        assert len(members) == len(set(members)), f"a node is in two groups of one round: {groups}"
        assert all(len(group) > 1 for group in groups), f"a collective over one node proves nothing: {groups}"
        self.calls.append(groups)
        return [self._one(group) for group in groups]

    def _one(self, group: tuple[int, ...]) -> GroupVerdict:
        self.tests += 1
        shown = [self.bad[node] for node in group if node in self.bad]
        path = any(a in group and b in group for a, b in self.paths)
        if shown:
            return shown[0]
        return SLOW if path or self.tests in self.blips or len(group) >= self.fails_from else GOOD


def accused(found: Isolation[int]) -> set[int]:
    return {culprit.node for culprit in found.culprits}


def test_a_good_group_costs_one_test() -> None:
    model = Model()
    found = isolate(range(18), model)
    assert (found.tests, found.rounds, found.culprits, found.transient) == (1, 1, (), False)
    assert model.calls == [[tuple(range(18))]]


@pytest.mark.parametrize("bad", range(18))
def test_one_bad_node_of_a_rack_is_named_with_at_most_thirteen_tests(bad: int) -> None:
    model = Model({bad: SLOW})
    found = isolate(range(18), model, known=SLOW)
    assert accused(found) == {bad}
    assert not found.paths and not found.undecided and not found.together and not found.transient
    assert found.tests <= 13 and found.rounds <= 8
    assert found.tests == model.tests + 1 and found.rounds == len(model.calls) + 1
    assert found.rest == tuple(node for node in range(18) if node != bad)
    assert bad not in found.culprits[0].partners


@pytest.mark.parametrize("minimum", [2, 4])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 17, 18])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_choice_of_bad_nodes(size: int, count: int, minimum: int) -> None:
    """Nobody good is ever accused; everybody bad is, where enough good nodes are there to tell twice."""
    for bad in itertools.islice(itertools.combinations(range(size), count), 0, None, 7 if size > 7 else 1):
        found = isolate(range(size), Model(dict.fromkeys(bad, SLOW)), minimum=minimum)
        assert accused(found) <= set(bad)
        assert not found.paths and not found.transient and not found.together
        assert set(bad) <= accused(found) | set(found.undecided), found.reasoning
        pads = min(minimum, (size + 1) // 2) - 1
        if size - count >= max(2, 2 * pads + count - 1):
            assert accused(found) == set(bad)


def test_an_accused_node_was_tested_twice_with_different_partners() -> None:
    model = Model({11: SLOW})
    isolate(range(18), model)
    alone = [set(g) - {11} for call in model.calls for g in call if 11 in g and len(g) == 2]
    assert len(alone) >= 2 and len(set(map(frozenset, alone))) >= 2


def test_halves_run_side_by_side() -> None:
    model = Model({0: SLOW})
    isolate(range(18), model)
    assert [len(group) for group in model.calls[1]] == [9, 9]


@pytest.mark.parametrize("minimum", [2, 4])
def test_groups_are_padded_to_the_minimum_with_proven_good_nodes(minimum: int) -> None:
    model = Model({3: SLOW, 4: SLOW})
    found = isolate(range(18), model, minimum=minimum)
    assert accused(found) == {3, 4}
    assert min(len(group) for call in model.calls for group in call) >= minimum


def test_a_path_is_told_and_no_node_is_accused() -> None:
    for a, b in [(0, 17), (3, 12), (4, 5), (8, 9)]:
        found = isolate(range(18), Model(paths=[(a, b)]))
        assert not found.culprits and not found.transient
        assert [{*path.left, *path.right} for path in found.paths] == [{a, b}], found.reasoning
        assert any("path, not a node" in line for line in found.reasoning)


def test_a_path_to_the_first_partner_does_not_accuse_the_node() -> None:
    """The leaf test of a suspect fails for its partner's sake: it must not be accused after the re-test."""
    blip_then_path = Model(paths=[(0, 9)])
    found = isolate(range(18), blip_then_path)
    assert not found.culprits


def test_a_passing_disturbance_is_called_one_after_the_full_group_was_run_again() -> None:
    model = Model(blips=[1])
    found = isolate(range(18), model)
    assert found.transient and not found.culprits and not found.paths
    assert model.calls[-1] == [tuple(range(18))]
    assert "passing disturbance" in found.reasoning[-1]


def test_what_fails_only_as_a_whole_names_nobody() -> None:
    found = isolate(range(18), Model(fails_from=18))
    assert not found.culprits and not found.paths and not found.transient
    assert found.together == (tuple(range(18)),)


@pytest.mark.parametrize("blip", range(1, 12))
def test_one_wrong_verdict_accuses_nobody_good(blip: int) -> None:
    """Whatever single test a disturbance hits, the bad node is named and no other."""
    found = isolate(range(18), Model({7: SLOW}, blips=[blip]))
    assert accused(found) == {7}, found.reasoning
    found = isolate(range(18), Model(blips=[blip]), known=SLOW)
    assert not found.culprits and not found.paths


def test_more_than_three_bad_nodes_are_found_by_pairs() -> None:
    bad = {0, 4, 9, 13, 16}
    model = Model(dict.fromkeys(bad, SLOW))
    found = isolate(range(18), model)
    assert accused(found) == bad and not found.undecided
    assert any("pairs" in line for line in found.reasoning)
    for culprit in found.culprits:
        assert len(set(culprit.partners) - bad) > 1


def test_when_nobody_is_good_nobody_is_accused() -> None:
    found = isolate(range(6), Model(dict.fromkeys(range(6), SLOW)))
    assert not found.culprits and set(found.undecided) == set(range(6))


def test_two_nodes_cannot_tell_each_other_apart() -> None:
    found = isolate(range(2), Model({0: SLOW}))
    assert not found.culprits and set(found.undecided) == {0, 1}


def test_a_hint_saves_tests() -> None:
    hinted, plain = Model({15: HANG}), Model({15: HANG})
    found = isolate(range(18), hinted, known=HANG, hints=[15])
    isolate(range(18), plain, known=HANG)
    assert accused(found) == {15} and found.culprits[0].verdict is HANG
    assert hinted.tests == 4 < plain.tests


def test_a_wrong_hint_does_no_harm() -> None:
    found = isolate(range(18), Model({3: ERROR}), known=ERROR, hints=[15, 16])
    assert accused(found) == {3}


def test_the_reasoning_names_nodes_and_every_round() -> None:
    found = isolate(range(6), Model({2: SLOW}), name=lambda node: f"n{node:02d}")
    text = "\n".join(found.reasoning)
    assert "n02" in text
    assert all(f"round {number}," in text for number in range(1, found.rounds + 1))


def test_a_callback_that_forgets_a_group_is_an_error() -> None:
    forgetful: Callable[[list[tuple[int, ...]]], list[GroupVerdict]] = lambda groups: [SLOW]  # noqa: E731
    with pytest.raises(ValueError, match="2 groups"):
        isolate(range(4), forgetful, known=SLOW)


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(2, 24),
    bad=st.sets(st.integers(0, 23), max_size=8),
    paths=st.lists(st.tuples(st.integers(0, 23), st.integers(0, 23)), max_size=2),
    blips=st.sets(st.integers(1, 40), max_size=1),
    minimum=st.integers(1, 5),
)
def test_nobody_good_is_accused_whatever_happens_once(
    size: int, bad: set[int], paths: list[tuple[int, int]], blips: set[int], minimum: int
) -> None:
    bad = {node for node in bad if node < size}
    # At a path's own ends, two faults at once can look like one bad node; that is another story.
    ends = {end for path in paths for end in path}
    found = isolate(range(size), Model(dict.fromkeys(bad, SLOW), paths, sorted(blips)), minimum=minimum)
    assert accused(found) <= bad | ends
    assert set(found.rest).isdisjoint(bad)
    assert found.tests < 400
