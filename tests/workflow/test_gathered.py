"""What was gathered is judged at any moment: a stop makes nothing look worse than it was, nor better."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from ndctl.inventory.loader import load
from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.places import Cluster, Node, Rack
from ndctl.model.status import Status, Verdict
from ndctl.workflow.active import ActiveResult
from ndctl.workflow.gathered import Gathered, done_with, judged, merged

NODE = Node("rack01-n01", "rack01", "127.88.1.1")


def said(kind: OutcomeKind, **results: str) -> NodeAnswer:
    told = {key: CommandResult(key, 0, text) for key, text in results.items()}
    return NodeAnswer(NODE, Outcome(kind, kind.value), told)


@pytest.mark.parametrize(
    ("first", "again", "outcome"),
    [
        (OutcomeKind.OK, OutcomeKind.INTERRUPTED, OutcomeKind.OK),
        (OutcomeKind.OK, OutcomeKind.UNREACHABLE, OutcomeKind.UNREACHABLE),
        (OutcomeKind.REFUSED, OutcomeKind.INTERRUPTED, OutcomeKind.INTERRUPTED),
        (OutcomeKind.REFUSED, OutcomeKind.OK, OutcomeKind.OK),
    ],
)
def test_a_node_that_a_stop_kept_from_being_asked_again_had_answered(
    first: OutcomeKind, again: OutcomeKind, outcome: OutcomeKind
) -> None:
    both = merged(said(first, kernel="old", xml="x"), said(again, kernel="new"))
    assert both.outcome.kind is outcome
    assert {key: result.stdout for key, result in both.results.items()} == {"kernel": "new", "xml": "x"}


@pytest.mark.parametrize(
    ("active", "verdict", "skipped"),
    [
        (None, Verdict.INCOMPLETE, ["nccl.all-reduce", "nccl.across"]),
        ([], Verdict.INCOMPLETE, ["nccl.all-reduce", "nccl.across"]),
        (["nccl.all-reduce"], Verdict.INCOMPLETE, ["nccl.across"]),
        (["nccl.all-reduce", "nccl.across.bandwidth"], Verdict.ACCEPTED, []),
    ],
)
def test_a_rack_whose_tests_were_not_run_is_not_accepted(
    tmp_path: Path, active: list[str] | None, verdict: Verdict, skipped: list[str]
) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("cluster: lab\nprofile: gb300\nstatic:\n  - {rack: 1, nodes: [127.88.1.1]}\n")
    rack = Rack("rack01", 1, 1, (NODE,))
    one = Gathered(load(path), Cluster("lab", (rack,)), [], date(2026, 12, 2))
    one.answers[NODE] = said(OutcomeKind.OK, identity="boot_id=1")
    one.required = ("nccl.all-reduce", "nccl.across")
    if active is not None:
        findings = [Finding(check=check, status=Status.PASS, subject="rack01", message="") for check in active]
        one.active["rack01"] = ActiveResult(findings=findings, required=("nccl.all-reduce",))
    result = judged(one, rack)
    assert result.verdict is verdict
    assert [finding.check for finding in result.findings if finding.message == "was not run"] == skipped


def test_a_rack_that_is_done_with_is_judged_once_and_its_texts_are_let_go(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("cluster: lab\nprofile: gb300\nstatic:\n  - {rack: 1, nodes: [127.88.1.1]}\n")
    other = Node("rack02-n01", "rack02", "127.88.2.1")
    racks = (Rack("rack01", 1, 1, (NODE,)), Rack("rack02", 2, 1, (other,)))
    one = Gathered(load(path), Cluster("lab", racks), [], date(2026, 12, 2))
    one.answers[NODE] = said(OutcomeKind.OK, identity="boot_id=1")
    one.answers[other] = said(OutcomeKind.REFUSED)
    before = [judged(one, rack) for rack in racks]
    done_with(one, racks[0], lambda rack: {})
    assert list(one.answers) == [other]
    assert [judged(one, rack) for rack in racks] == before
    assert one.measured == {"rack01": []}
