"""Which tests a rack gets, on which of its nodes: budgets, bounds, jobs that begin meanwhile."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ndctl.jobs.active.base import ActiveCheck, RackUnderTest
from ndctl.jobs.active.base import Outcome as ActiveOutcome
from ndctl.model.answers import NodeAnswer, Outcome, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.status import Group, Level, Status
from ndctl.workflow.active import ActiveResult, ActiveTests
from ndctl.workflow.bounds import NodeBound
from tests.workflow.test_active import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    one = Rig(tmp_path)
    yield one
    assert one.left() == []


class Two:
    """Two active checks of the test's own making; `ran` says which ran over how many nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[tuple[str, int]] = []
        self.now = 0.0
        self.before_end: Callable[[str], None] = lambda check: None
        checks = (self._check("gpu.slow", 600), self._check("gpu.short", 60), self._check("gpu.extra", 30, False))
        monkeypatch.setattr("ndctl.workflow.active.active_checks", lambda: checks)

    def _check(self, name: str, cost: float, required: bool = True) -> ActiveCheck:
        def run(rack: RackUnderTest) -> ActiveOutcome:
            self.ran.append((name, len(rack.nodes)))
            self.now += cost
            self.before_end(name)
            passed = Finding(check=name, status=Status.PASS, subject=rack.rack, message="fine")
            return ActiveOutcome([passed])

        return ActiveCheck(name, Group.GPU, Level.STANDARD, name, cost, run, required=required, smallest=1)

    def run(self, rig: Rig, **more: object) -> ActiveResult:
        tests = ActiveTests(
            rig, rig.loaded, level=Level.STANDARD, groups=frozenset(Group), force=False, holder="first@ops-1, run 1",
            token=f"run-{secrets.token_hex(4)}",
            disabled=frozenset(), on_event=rig.events.append, clock=lambda: self.now, **more,
        )  # type: ignore[arg-type]  # fmt: skip
        answers = {node: NodeAnswer(node, Outcome(OutcomeKind.OK)) for node in rig.nodes.nodes}
        return tests.run(rig.rack, answers, frozenset())


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Two:
    return Two(monkeypatch)


def test_without_a_budget_all_run_in_the_order_of_the_catalogue(rig: Rig, two: Two) -> None:
    result = two.run(rig)
    assert [name for name, _ in two.ran] == ["gpu.slow", "gpu.short", "gpu.extra"]
    assert result.remarks == [] and result.required == ("gpu.slow", "gpu.short")


def test_a_budget_runs_what_found_most_for_its_time_and_says_what_it_left(rig: Rig, two: Two) -> None:
    result = two.run(rig, budget_s=120.0, past={"gpu.short": (10, 9), "gpu.extra": (10, 0), "gpu.slow": (10, 0)})
    assert [name for name, _ in two.ran] == ["gpu.short", "gpu.extra"]
    [skip] = [f for f in result.findings if f.status is Status.SKIP]
    assert (skip.check, skip.message) == (
        "gpu.slow", "left out: the budget of 2m is spent (needs about 600 s, 30 s are left)",
    )  # fmt: skip
    assert result.remarks == ["left out for the budget of 2m: gpu.slow (about 600 s)"]


def test_a_budget_looks_at_the_time_really_left(rig: Rig, two: Two) -> None:
    def slower_than_said(check: str) -> None:
        two.now += 50

    two.before_end = slower_than_said
    result = two.run(rig, budget_s=120.0)
    assert [name for name, _ in two.ran] == ["gpu.extra"]
    assert [f.check for f in result.findings if f.status is Status.SKIP] == ["gpu.short", "gpu.slow"]


def test_a_node_whose_job_begins_between_two_tests_is_left_out_from_then_on(rig: Rig, two: Two) -> None:
    def job_begins(check: str) -> None:
        if check == "gpu.slow":
            (rig.nodes.home(rig.nodes.nodes[4]) / "apps").write_text("GPU-1, 4711, /usr/bin/python3\n")

    two.before_end = job_begins
    result = two.run(rig)
    assert two.ran == [("gpu.slow", 8), ("gpu.short", 7), ("gpu.extra", 7)]
    left = [(f.check, f.node) for f in result.findings if f.status is Status.SKIP]
    assert left == [("gpu.short.left-out", "rack01-n05"), ("gpu.extra.left-out", "rack01-n05")]


def test_the_bound_is_kept_and_given_back_whatever_comes(rig: Rig, two: Two) -> None:
    (rig.nodes.home(rig.nodes.nodes[0]) / "apps").write_text("GPU-1, 4711, /usr/bin/python3\n")
    bound = NodeBound(4)
    result = two.run(rig, bound=bound)
    assert {nodes for _, nodes in two.ran} == {4}
    left = [f.node for f in result.findings if f.check == "gpu.slow.left-out"]
    assert left == [f"rack01-n0{number}" for number in (1, 6, 7, 8)]  # one in use, and what is beyond the bound
    assert bound.take(4, lambda: True) == 0 and bound.take(4, lambda: False) == 4
    bound.give_back(4)

    def breaks(check: str) -> None:
        raise KeyboardInterrupt

    two.before_end = breaks
    with pytest.raises(KeyboardInterrupt):
        two.run(rig, bound=bound)
    assert bound.take(4, lambda: False) == 4
    assert rig.left() == []


def test_places_that_a_rack_does_not_need_are_free_for_others_while_it_is_tested(rig: Rig, two: Two) -> None:
    for node in rig.nodes.nodes[:5]:
        (rig.nodes.home(node) / "apps").write_text("GPU-1, 4711, /usr/bin/python3\n")
    bound, taken = NodeBound(8), []

    def others(check: str) -> None:
        taken.append(bound.take(5, lambda: False))
        bound.give_back(5)

    two.before_end = others
    two.run(rig, bound=bound)
    assert taken == [5, 5, 5] and {nodes for _, nodes in two.ran} == {3}
