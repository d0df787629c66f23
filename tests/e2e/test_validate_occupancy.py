"""Beside live jobs: nodes in use are left out of active tests, the others are tested, and it is all said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ndctl.model.findings import Finding, Run
from ndctl.model.status import Group, Level, Status, Verdict
from ndctl.report.json_text import run_json
from ndctl.report.table import as_plain, run_lines
from ndctl.workflow.validate import Request, validate_inventories
from tests.e2e.lab import Lab

pytestmark = pytest.mark.xdist_group("lab-2")

NCCL = frozenset({Group.NCCL})
CHECK = "nccl.all-reduce"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    one = Lab(tmp_path_factory.mktemp("lab"), nodes=4)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _clean(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    yield
    lab.faults.clear()
    lab.sync()


def ask(lab: Lab, **more: object) -> Run:
    lab.sync()
    return validate_inventories(
        Request(paths=(lab.inventory,), level=Level.STANDARD, groups=NCCL, **more)  # type: ignore[arg-type]
    )


def left_out(run: Run) -> dict[str, Finding]:
    return {f.node: f for f in run.racks[0].findings if f.check == f"{CHECK}.left-out"}


def collective(run: Run) -> str:
    """What the collective says of itself: over how many nodes it ran, and how fast."""
    return next((f.message for f in run.racks[0].findings if f.check == CHECK and f.status is Status.PASS), "")


BUSY = [
    ("slurm-allocated", {}, "Slurm says ALLOCATED (job 4711 of train, pretrain)"),
    ("slurm-allocated", {"state": "MIXED+DRAIN"}, "Slurm says MIXED+DRAIN (job 4711 of train, pretrain)"),
    ("slurm-allocated", {"state": "IDLE+PLANNED"}, "Slurm says IDLE+PLANNED"),
    ("k8s-busy", {}, "Kubernetes runs pod ml/train-0 there (nvidia.com/gpu 4)"),
    ("gpu-busy", {}, "its GPUs are in use: python3 40000"),
    ("cpu-busy", {}, "its load is "),
]


@pytest.mark.parametrize(("kind", "more", "said"), BUSY, ids=[f"{k}-{m.get('state', '')}" for k, m, _ in BUSY])
def test_a_node_in_use_is_left_out_and_the_others_are_tested(
    lab: Lab, kind: str, more: dict[str, str], said: str
) -> None:
    lab.faults.add(kind, node="rack01-n02", **more)
    run = ask(lab)
    assert {node: f.status for node, f in left_out(run).items()} == {"rack01-n02": Status.SKIP}
    assert said in left_out(run)["rack01-n02"].message
    assert "3 nodes" in collective(run)
    # An acceptance that was not made of a node is not claimed of its rack, and nobody is blamed for it.
    assert run.racks[0].verdict is Verdict.INCOMPLETE and run.exit_code == 8
    assert not [f for f in run.racks[0].findings if f.status in (Status.FAIL, Status.WARN, Status.UNKNOWN)]


@pytest.mark.parametrize("kind", ["slurm-drained", "k8s-cordoned"])
def test_a_node_taken_out_of_service_is_tested(lab: Lab, kind: str) -> None:
    lab.faults.add(kind, node="rack01-n02")
    run = ask(lab)
    assert left_out(run) == {} and "4 nodes" in collective(run)
    assert run.racks[0].verdict is Verdict.ACCEPTED


def test_a_scheduler_that_says_idle_is_not_believed_over_processes(lab: Lab) -> None:
    lab.faults.add("slurm-drained", node="rack01-n02")
    lab.faults.add("gpu-busy", node="rack01-n02")
    run = ask(lab)
    assert "python3" in left_out(run)["rack01-n02"].message and "3 nodes" in collective(run)


def test_a_scheduler_that_does_not_answer_leaves_the_node_unknown(lab: Lab) -> None:
    lab.faults.add("slurm-away", node="rack01-n02")
    run = ask(lab)
    [finding] = left_out(run).values()
    assert finding.status is Status.UNKNOWN and "Unable to contact slurm controller" in finding.message
    assert "3 nodes" in collective(run) and run.racks[0].verdict is Verdict.INCOMPLETE


def test_force_tests_them_all_and_says_whom(lab: Lab) -> None:
    lab.faults.add("slurm-allocated", node="rack01-n02")
    run = ask(lab, force=True)
    assert left_out(run) == {} and "4 nodes" in collective(run)
    [line] = [line for line in as_plain(run_lines(run)).splitlines() if line.startswith("note:")]
    assert "rack01-n02 was tested all the same (--force): Slurm says ALLOCATED" in line


def test_a_bound_below_a_rack_tests_that_many_nodes_of_it(lab: Lab) -> None:
    run = ask(lab, max_nodes_under_test=3)
    assert list(left_out(run)) == ["rack01-n04"] and "--max-nodes-under-test" in left_out(run)["rack01-n04"].message
    assert "3 nodes" in collective(run) and run.racks[0].verdict is Verdict.INCOMPLETE


def test_a_budget_too_small_leaves_the_test_out_and_says_so(lab: Lab) -> None:
    run = ask(lab, budget_s=4.0)
    [skip] = [f for f in run.racks[0].findings if f.check == CHECK]
    assert skip.status is Status.SKIP
    assert re.match(r"left out: the budget of 4s is spent \(needs about \d+ s, \d+ s are left\)", skip.message)
    assert run.racks[0].verdict is Verdict.INCOMPLETE
    [line] = [line for line in as_plain(run_lines(run)).splitlines() if line.startswith("note:")]
    assert line.startswith("note: rack01: left out for the budget of 4s: ") and "nccl.all-reduce (about " in line
    [rack] = json.loads(run_json(run))["racks"]
    assert "nccl.all-reduce (about " in rack["facts"]["remarks"][0]


def test_a_budget_that_is_enough_leaves_nothing_out(lab: Lab) -> None:
    run = ask(lab, budget_s=600.0)
    assert run.racks[0].verdict is Verdict.ACCEPTED and "remarks" not in run.racks[0].facts
