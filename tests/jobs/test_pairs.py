"""Non-overlapping pairs: every pair once, nobody twice in a round, each way in turn."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndctl.jobs.pairs import both_ways, rounds

sizes = st.integers(0, 40)


@given(sizes)
def test_every_pair_meets_exactly_once(size: int) -> None:
    met = Counter(frozenset(pair) for pairs in rounds(range(size)) for pair in pairs)
    assert met == Counter(map(frozenset, combinations(range(size), 2)))


@given(sizes)
def test_nobody_is_twice_in_a_round_and_at_most_one_is_idle(size: int) -> None:
    for pairs in rounds(range(size)):
        members = [item for pair in pairs for item in pair]
        assert len(members) == len(set(members)) == size - size % 2


@pytest.mark.parametrize(("size", "count"), [(0, 0), (1, 0), (2, 1), (3, 3), (17, 17), (18, 17), (72, 71)])
def test_the_number_of_rounds(size: int, count: int) -> None:
    assert len(list(rounds(range(size)))) == count


@given(sizes)
def test_turning_pairs_changes_no_pair(size: int) -> None:
    plain = [{frozenset(pair) for pair in pairs} for pairs in rounds(range(size))]
    assert [{frozenset(pair) for pair in pairs} for pairs in both_ways(range(size))] == plain


@given(st.integers(3, 40))
def test_in_two_rounds_everybody_goes_first_once_and_second_once(size: int) -> None:
    turned = list(both_ways(range(size)))
    for one, other in zip(turned[::2], turned[1::2], strict=False):
        first = Counter(pair[0] for pairs in (one, other) for pair in pairs)
        second = Counter(pair[1] for pairs in (one, other) for pair in pairs)
        for item in range(size):
            taking_part = first[item] + second[item]
            assert taking_part in (1, 2)  # an odd number leaves one out of each round
            assert first[item] <= 1 and second[item] <= 1
