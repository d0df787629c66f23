"""Outliers of a group: two bad parts do not hide each other, and healthy noise accuses nobody."""

from __future__ import annotations

import random

import pytest

from ndctl.checks.outliers import outliers


def noisy(count: int, seed: int, sigma: float = 0.01) -> dict[int, float]:
    draw = random.Random(seed)
    return {number: 900.0 * (1 + draw.gauss(0, sigma)) for number in range(count)}


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_up_to_three_equal_bad_parts_among_eighteen_are_all_found(bad: int) -> None:
    for seed in range(200):
        values = noisy(18, seed) | dict.fromkeys(range(bad), 790.0)
        assert {one.key for one in outliers(values)} >= set(range(bad))


def test_healthy_noise_accuses_in_less_than_one_rack_of_a_hundred() -> None:
    accused = sum(bool(outliers(noisy(18, seed))) for seed in range(2000))
    assert accused < 20


def test_only_the_bad_side_counts() -> None:
    values = {**dict.fromkeys(range(17), 50.0), 17: 71.0, 3: 50.5, 4: 49.5}
    assert [one.key for one in outliers(values, "high", absolute=10)] == [17]
    assert outliers(values, "low") == ()


def test_the_absolute_distance_is_asked_too() -> None:
    values = {**{number: 40.0 + number % 3 * 0.1 for number in range(17)}, 17: 46.0}
    assert [one.key for one in outliers(values, "high")] == [17]
    assert outliers(values, "high", absolute=10) == ()


def test_equal_values_and_small_groups_say_nothing() -> None:
    assert outliers(dict.fromkeys(range(18), 5.0)) == ()
    assert outliers(dict.fromkeys(range(6), 900.0) | {6: 100.0}) == ()
    assert outliers({**dict.fromkeys(range(17), 5.0), 17: float("nan")}) == ()


def test_where_most_values_are_equal_the_mean_deviation_takes_over() -> None:
    values = {**dict.fromkeys(range(17), 800.0), 17: 400.0}
    (one,) = outliers(values)
    assert (one.key, one.off) == (17, 0.5)
