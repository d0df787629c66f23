"""What a budget means, and which tests are worth it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndctl.model.errors import NdctlError
from ndctl.workflow.budget import by_worth, next_that_fits, parse_budget, spoken, worth


@dataclass(frozen=True)
class Test:
    __test__ = False
    id: str
    cost_s: float


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("90s", 90), ("1h", 3600), ("1h30m", 5400), ("90", 90), (" 2 M ", 120), ("1.5h", 5400)],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_budget(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "-5m", "15x", "15 minutes", "0", "0s", "1m1m", "1s1h", "1h30", "9" * 30, "nan", "1e3s", "²m"]
)
def test_what_is_no_time_is_a_usage_error(text: str) -> None:
    with pytest.raises(NdctlError) as error:
        parse_budget(text)
    assert error.value.exit_code == 2 and "90s" in error.value.hint


@given(st.integers(1, 7 * 24 * 3600))
def test_what_is_spoken_can_be_typed(seconds: int) -> None:
    assert parse_budget(spoken(seconds)) == seconds


def test_spoken_as_a_person_would() -> None:
    assert [spoken(s) for s in (30, 90, 120, 900, 3600, 5400, 601)] == [
        "30s",
        "90s",
        "2m",
        "15m",
        "1h",
        "1h30m",
        "601s",
    ]


CHECKS = st.lists(
    st.builds(Test, st.text("abcdef", min_size=1, max_size=3), st.floats(0, 3600)), max_size=8, unique_by=lambda c: c.id
)
COUNTS = st.tuples(st.integers(-3, 500), st.integers(-3, 500))
PAST = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), COUNTS, max_size=8)


@given(CHECKS, PAST, st.randoms())
def test_the_order_is_all_of_them_by_worth_and_not_by_chance(
    checks: list[Test], past: dict[str, tuple[int, int]], dice: object
) -> None:
    ordered = by_worth(checks, past)
    assert sorted(c.id for c in ordered) == sorted(c.id for c in checks)
    assert [worth(c, past) for c in ordered] == sorted((worth(c, past) for c in checks), reverse=True)
    shuffled = list(checks)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert by_worth(shuffled, past) == ordered


@given(st.integers(0, 200), st.integers(0, 200), st.floats(1, 600))
def test_more_found_is_worth_more_and_more_cost_less(runs: int, found: int, cost: float) -> None:
    found = min(found, runs)
    one, dear = Test("a", cost), Test("a", cost * 2)
    now = worth(one, {"a": (runs, found)})
    assert 0 < now <= 1
    assert worth(dear, {"a": (runs, found)}) < now
    assert worth(one, {"a": (runs + 1, found + 1)}) > now or found == runs
    assert worth(one, {"a": (runs + 1, found)}) < now


def test_what_found_faults_comes_before_what_never_did() -> None:
    checks = [Test("never-found", 60), Test("often-found", 60), Test("never-ran", 60), Test("cheap", 5)]
    past = {"never-found": (40, 0), "often-found": (40, 30), "cheap": (40, 2)}
    assert [c.id for c in by_worth(checks, past)] == ["cheap", "often-found", "never-ran", "never-found"]


@given(CHECKS, st.floats(-10, 4000))
def test_the_first_that_fits(checks: list[Test], left: float) -> None:
    chosen = next_that_fits(checks, left)
    if chosen is None:
        assert all(check.cost_s > left for check in checks)
    else:
        assert chosen.cost_s <= left
        assert all(check.cost_s > left for check in checks[: checks.index(chosen)])
