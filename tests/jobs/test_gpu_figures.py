"""Figures of a rack's GPUs: floor, rack, and what both measurements say; no healthy GPU is ever accused."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from ndctl.jobs.gpu_figures import Key, Limits, Metric, accused, judge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.profiles import load

LIMITS = Limits.of_bounds(load("gb300").gpu.gemm_tflops)
METRIC = Metric("gpu.gemm", "gpu.gemm", "GEMM", "TFLOPS", LIMITS, "heat", Action.REPLACE_AND_REPORT, "Some.Category")


def rack(seed: int = 1, nodes: int = 18, spread: float = 0.01, middle: float = 1850.0) -> dict[Key, float]:
    dice = random.Random(seed)
    return {
        (f"rack01-n{node:02d}", gpu): middle * dice.uniform(1 - spread, 1 + spread)
        for node in range(1, nodes + 1)
        for gpu in range(4)
    }


def said(
    first: Mapping[Key, float], again: Mapping[Key, float] | None = None, metric: Metric = METRIC, why: str = ""
) -> list[Finding]:
    return judge(metric, "rack01", first, again or {}, why, lambda key: f"GPU {key[1]}", lambda key: f"{key[0]}/text")


BAD: Key = ("rack01-n05", 2)


@pytest.mark.parametrize("seed", range(40))
def test_a_healthy_rack_accuses_nobody(seed: int) -> None:
    values = rack(seed)
    assert accused(METRIC, values) == {}
    (one,) = said(values)
    assert one.status is Status.PASS and one.value == round(min(values.values()), 1)


@pytest.mark.parametrize(
    ("share", "status"), [(0.88, Status.FAIL), (0.945, Status.WARN), (0.5, Status.FAIL), (0.001, Status.FAIL)]
)
def test_who_is_slow_twice_is_named_with_figure_floor_and_action(share: float, status: Status) -> None:
    first = rack() | {BAD: 1850 * share}
    (one,) = said(first, {BAD: 1850 * share * 1.002})
    assert (one.check, one.status, one.node, one.subject) == ("gpu.gemm.slow", status, "rack01-n05", "GPU 2")
    assert one.expected and "Azure" in one.source and one.evidence == "rack01-n05/text" and one.cause == "heat"
    failed = status is Status.FAIL
    assert (one.action is Action.REPLACE_AND_REPORT, one.health_category == "Some.Category") == (failed, failed)


def test_who_is_good_when_asked_again_is_not_accused_and_it_is_said() -> None:
    (one,) = said(rack() | {BAD: 1500.0}, {BAD: 1849.0})
    assert one.status is Status.PASS and "good when asked again: rack01-n05 GPU 2" in one.message


def test_the_milder_of_two_measurements_stands() -> None:
    (one,) = said(rack() | {BAD: 1500.0}, {BAD: 1770.0})
    assert one.status is Status.WARN


def test_who_could_not_be_asked_again_is_unknown() -> None:
    (one,) = said(rack() | {BAD: 1500.0}, why="interrupted")
    assert one.status is Status.UNKNOWN and one.check == "gpu.gemm.not-confirmed" and "interrupted" in one.message


def test_without_a_floor_the_rack_judges() -> None:
    metric = replace(METRIC, limits=None)
    (one,) = said(rack() | {BAD: 1700.0}, {BAD: 1705.0}, metric)
    assert one.status is Status.FAIL and one.source.startswith("the rack itself")
    assert said(rack(middle=3.0), metric=metric)[0].status is Status.PASS


def test_above_the_floor_and_far_behind_the_rack_is_a_warning() -> None:
    first = rack(spread=0.003, middle=1930.0) | {BAD: 1820.0}
    (one,) = said(first, {BAD: 1822.0})
    assert one.status is Status.WARN and "the rack's median" in one.expected


def test_a_place_of_its_own_speed_is_no_fault() -> None:
    """The first GPU of each tray four per cent behind: systematic, and above the floor."""
    first = {key: value * (0.96 if key[1] == 0 else 1.0) for key, value in rack(middle=1900.0, spread=0.004).items()}
    assert accused(METRIC, first) == {}


def test_a_rack_that_is_slow_as_a_whole_blames_no_gpu() -> None:
    first = rack(middle=1600.0)
    (one,) = said(first, first)
    assert (one.check, one.status, one.node, one.subject) == ("gpu.gemm.all-slow", Status.FAIL, "", "rack01")
    assert one.action is Action.INVESTIGATE and one.health_category == ""


def test_in_a_slow_rack_who_is_slower_still_is_named_too() -> None:
    first = rack(middle=1600.0) | {BAD: 1200.0}
    assert {f.check for f in said(first, first)} == {"gpu.gemm.all-slow", "gpu.gemm.slow"}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_several_bad_ones_are_all_found(count: int) -> None:
    bad = {(f"rack01-n{node:02d}", 1): 1500.0 for node in range(3, 3 + count)}
    found = said(rack() | bad, bad)
    assert {(f.node, f.subject) for f in found} == {(node, "GPU 1") for node, _ in bad}


def test_few_nodes_are_judged_by_the_floor_alone() -> None:
    first = rack(nodes=1) | {("rack01-n01", 3): 1500.0}
    assert [f.status for f in said(first, {("rack01-n01", 3): 1501.0})] == [Status.FAIL]
    assert said(rack(nodes=1), metric=replace(METRIC, limits=None))[0].status is Status.PASS


def test_shares_of_a_measured_figure_say_that_they_are_ours() -> None:
    limits = Limits.of_known(load("gb300").gpu.device_to_host_gb_per_s, 0.9, 0.6)
    assert limits is not None and limits.warn_below == pytest.approx(174.15) and "ndctl's own" in limits.source
    assert Limits.of_known(None, 0.9, 0.6) is None and Limits.of_bounds(None) is None


def test_figures_of_zero_are_slow_and_no_crash() -> None:
    metric = replace(METRIC, limits=None)
    assert said(dict.fromkeys(rack(), 0.0), metric=metric)[0].status is Status.PASS
    (one,) = said(rack() | {BAD: 0.0}, {BAD: 0.0})
    assert one.status is Status.FAIL
