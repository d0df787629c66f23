"""Pairs of nodes of two racks: a bad node told from a bad path and from what joins the racks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from ndctl.jobs.isolation import GroupVerdict
from ndctl.jobs.judge_across import PairRun, bad_paths, judge_across, marked
from ndctl.jobs.nccl_across import rotating
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status

CHECK = "nccl.across-racks"
RACKS = ("rack01", "rack02")


def rack(number: int, size: int = 6) -> list[Node]:
    return [
        Node(f"rack{number:02d}-n{n:02d}", f"rack{number:02d}", address=f"10.0.{number}.{n}")
        for n in range(1, size + 1)
    ]


def run(left: Node, right: Node, busbw: float | None, verdict: GroupVerdict | None = None) -> PairRun:
    """At least 225 GB/s is good."""
    if verdict is None and busbw is not None:
        verdict = GroupVerdict.GOOD if busbw >= 225 else GroupVerdict.SLOW
    statuses = {GroupVerdict.GOOD: Status.PASS, None: Status.UNKNOWN}
    finding = Finding(
        check=CHECK,
        status=statuses.get(verdict, Status.FAIL),
        subject=f"{left.name} ↔ {right.name}",
        value=busbw,
        unit="GB/s",
        expected="about 378 GB/s, at least 225",
        message=f"NCCL all_reduce across racks {busbw} GB/s" if busbw else "not run: no route",
    )
    return PairRun(left, right, verdict, busbw, (finding,), f"{left.name}/x")


def screen(speed: Callable[[str, str], float | None], turns: int = 4, size: int = 6) -> list[PairRun]:
    pairs = [pair for turn in islice(rotating(rack(1, size), rack(2, size)), turns) for pair in turn]
    return [run(a, b, speed(a.name, b.name)) for a, b in pairs]


def bad(findings: list[Finding]) -> list[tuple[str, str, Status]]:
    return [
        (f.check.removeprefix(CHECK + "."), f.node or f.subject, f.status)
        for f in findings
        if f.status is not Status.PASS
    ]


def passed(findings: list[Finding]) -> list[str]:
    return [f.subject for f in findings if f.status is Status.PASS]


def test_pairs_rotate_and_nobody_is_in_two_of_a_turn() -> None:
    turns = list(rotating(rack(1), rack(2)))
    assert len(turns) == 6 and len({pair for turn in turns for pair in turn}) == 36
    for number, turn in enumerate(turns):
        assert all((b.address[-1:] == str((int(a.address[-1:]) - 1 + number) % 6 + 1)) for a, b in turn)
        assert len({node for pair in turn for node in pair}) == 12


@pytest.mark.parametrize(("left", "right"), [(6, 4), (4, 6), (1, 3), (5, 5)])
def test_racks_of_unequal_size_meet_as_a_whole(left: int, right: int) -> None:
    turns = list(rotating(rack(1, left), rack(2, right)))
    assert len({pair for turn in turns for pair in turn}) == left * right
    assert all(len({n for pair in turn for n in pair}) == 2 * len(turn) for turn in turns)
    assert list(rotating(rack(1), [])) == []


def test_good_racks_pass_with_their_figures() -> None:
    findings = judge_across(screen(lambda a, b: 376.0, turns=2), CHECK, RACKS)
    assert bad(findings) == [] and passed(findings) == ["rack01", "rack02"]
    assert "6 of 6 nodes good in 12 pairs, 376 to 376 GB/s" in findings[0].message
    assert "nodes of rack02" in findings[0].message


def test_a_node_that_is_slow_with_all_partners_is_to_blame_and_the_others_pass() -> None:
    findings = judge_across(screen(lambda a, b: 90.0 if a == "rack01-n03" else 376.0), CHECK, RACKS)
    assert bad(findings) == [("slow-node", "rack01-n03", Status.FAIL)]
    assert passed(findings) == ["rack01", "rack02"]
    assert "5 of 6 nodes" in next(f.message for f in findings if f.subject == "rack01")
    assert findings[0].value == 90.0 and "rack02-n03" in findings[0].message and findings[0].cause


def test_bad_nodes_on_both_sides_are_both_named_even_where_they_meet() -> None:
    slow = {"rack01-n02", "rack02-n02"}
    findings = judge_across(screen(lambda a, b: 90.0 if {a, b} & slow else 376.0), CHECK, RACKS)
    assert {(kind, who) for kind, who, _ in bad(findings)} == {("slow-node", "rack01-n02"), ("slow-node", "rack02-n02")}


def test_a_path_blames_no_node_and_is_asked_once_more() -> None:
    def speed(a: str, b: str) -> float:
        return 90.0 if (a, b) == ("rack01-n02", "rack02-n02") else 376.0

    runs = screen(speed)
    [(a, b)] = bad_paths(runs)
    assert (a.name, b.name) == ("rack01-n02", "rack02-n02")
    again = [*runs, run(a, b, 91.0)]
    assert bad_paths(again) == []
    findings = judge_across(again, CHECK, RACKS)
    assert bad(findings) == [("path", "rack01-n02 ↔ rack02-n02", Status.FAIL)]
    assert "a path, not a node (2 tests)" in findings[0].message and passed(findings) == ["rack01", "rack02"]
    # Good when asked again: a passing disturbance.
    findings = judge_across([*runs, run(a, b, 377.0)], CHECK, RACKS)
    assert bad(findings) == [("transient", "rack01-n02 ↔ rack02-n02", Status.WARN)]
    assert findings[0].action is Action.WATCH


def test_where_every_pair_is_bad_no_node_is_to_blame() -> None:
    findings = judge_across(screen(lambda a, b: 90.0), CHECK, RACKS)
    assert bad(findings) == [("slow", "rack01 ↔ rack02", Status.FAIL)]
    assert "every pair is bad" in findings[0].cause and passed(findings) == []
    assert "and 20 more pairs" in findings[0].message


def test_a_pair_that_stands_out_is_slow_though_it_holds_the_floor() -> None:
    runs = marked(screen(lambda a, b: 330.0 if a == "rack01-n03" else 376.0))
    findings = judge_across(runs, CHECK, RACKS)
    assert bad(findings) == [("slow-node", "rack01-n03", Status.WARN)]
    assert "the other pairs reach 376" in findings[0].message and "376" in findings[0].expected
    assert marked(screen(lambda a, b: 376.0, size=3, turns=2)) == screen(lambda a, b: 376.0, size=3, turns=2)


def test_what_was_not_measured_is_unknown_and_no_pass() -> None:
    runs = screen(lambda a, b: None if "n03" in a else 376.0, turns=2)
    findings = judge_across(runs, CHECK, RACKS)
    assert bad(findings) == [("no-result", "rack01 ↔ rack02", Status.UNKNOWN)]
    assert passed(findings) == ["rack02"]  # whose nodes all had another partner
    assert judge_across([], CHECK, RACKS) == []


def test_two_partners_that_are_good_themselves_are_needed_to_blame() -> None:
    a, b = rack(1), rack(2)
    runs = [run(a[0], b[0], 90.0), run(a[1], b[1], 376.0)]
    assert bad(judge_across(runs, CHECK, RACKS)) == [("slow", "rack01 ↔ rack02", Status.FAIL)]
    runs = [run(a[0], b[0], 90.0), run(a[0], b[1], 90.0), run(a[1], b[0], 376.0), run(a[1], b[1], 376.0)]
    assert bad(judge_across(runs, CHECK, RACKS)) == [("slow-node", "rack01-n01", Status.FAIL)]


@pytest.mark.parametrize(("verdict", "word"), [(GroupVerdict.HANG, "hang-node"), (GroupVerdict.ERROR, "error-node")])
def test_hangs_and_errors_are_told_apart(verdict: GroupVerdict, word: str) -> None:
    pairs = [(one.left, one.right) for one in screen(lambda a, b: 376.0)]
    runs = [run(a, b, None, verdict) if a.name == "rack01-n04" else run(a, b, 376.0) for a, b in pairs]
    assert [(kind, who) for kind, who, _ in bad(judge_across(runs, CHECK, RACKS))] == [(word, "rack01-n04")]
