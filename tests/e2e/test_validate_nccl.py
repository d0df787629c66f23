"""NCCL tests of acceptance level against the embedded region: each fault by its node and layer, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ndctl.inventory.loader import load
from ndctl.jobs.active.registry import active_checks
from ndctl.model.findings import Finding, Run
from ndctl.model.status import Group, Level, Status, Verdict
from ndctl.workflow.select import Selection
from ndctl.workflow.validate import Request, validate_inventories
from tests.e2e.lab import Lab

pytestmark = pytest.mark.xdist_group("lab")
NCCL = {check.id for check in active_checks() if check.group is Group.NCCL}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    one = Lab(tmp_path_factory.mktemp("nccl"), racks=2, nodes=6)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _clean(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    yield
    lab.faults.clear()
    lab.sync()


def ask(lab: Lab, only: set[str], *, racks: frozenset[int] | None = frozenset({1})) -> Run:
    """The NCCL tests named, beside the passive checks of GPUs; the others are switched off in the inventory."""
    lab.sync()
    off = "".join(f"\n  - {{check: {check}, reason: not in this test, until: 2999-12-31}}" for check in NCCL - only)
    path = lab.inventory.with_name("chosen.yaml")
    path.write_text(lab.inventory.read_text() + (f"disabled_checks:{off}\n" if off else ""))
    load(path)
    groups = frozenset({Group.NCCL, Group.GPU})
    return validate_inventories(
        Request(paths=(path,), level=Level.ACCEPTANCE, groups=groups, selection=Selection(racks))
    )


def standing(run: Run) -> list[Finding]:
    bad = (Status.FAIL, Status.WARN, Status.UNKNOWN)
    return [f for rack in run.racks for f in rack.findings if f.status in bad and not f.caused_by]


def test_a_healthy_pair_of_racks_is_accepted_with_every_nccl_test(lab: Lab) -> None:
    run = ask(lab, NCCL, racks=None)
    assert standing(run) == []
    for rack in run.racks:
        assert rack.verdict is Verdict.ACCEPTED
        assert {f.check for f in rack.findings if f.check in NCCL and f.status is Status.PASS} == NCCL
    for vm in lab.world.vms():
        _, stdout, _ = lab.world.shell(
            vm, "cat ~/.ssh/authorized_keys 2>/dev/null; ls -A ~ | grep ndctl-job; ls /run/lock; true"
        )
        assert "ndctl-job" not in stdout and "ndctl-active" not in stdout


def test_one_rack_alone_is_not_asked_about_others(lab: Lab) -> None:
    run = ask(lab, {"nccl.across-racks"})
    assert not any(f.check.startswith("nccl.across-racks") for f in run.racks[0].findings)


LAYERS = [
    ("slow-node", {"node": "rack01-n05", "layer": "nvlink"}, "nccl.all-reduce.slow-node", "the layer is NVLink ("),
    ("slow-node", {"node": "rack01-n05", "layer": "nvls"}, "nccl.all-reduce.slow-node", "the layer is NVLS"),
    ("slow-node", {"node": "rack01-n05"}, "nccl.all-reduce.slow-node", "the layer is the host"),
    ("nvls-unavailable", {"node": "rack01-n03"}, "nccl.all-reduce.fall-back-node", "the layer is NVLS"),
    ("corrupts-data", {"node": "rack01-n06"}, "nccl.all-reduce.error-node", "the layer is the host"),
    (
        "rail-gdr-slow",
        {"node": "rack01-n02", "port": "mlx5_ib2"},
        "nccl.all-reduce-ib.slow-node",
        "the layer is InfiniBand rail mlx5_ib2",
    ),
]


@pytest.mark.parametrize(("kind", "where", "check", "layer"), LAYERS, ids=[f"{c[0]}-{c[3][13:19]}" for c in LAYERS])
def test_the_node_and_its_layer_are_told_and_nothing_else(
    lab: Lab, kind: str, where: dict[str, str], check: str, layer: str
) -> None:
    lab.faults.add(kind, **where)
    run = ask(lab, {check.rpartition(".")[0]})
    [finding] = standing(run)
    assert (finding.check, finding.node) == (check, where["node"])
    assert layer in finding.cause and "more tests" in finding.cause
    assert where["node"] not in run.racks[0].usable_nodes or finding.status is Status.WARN


def test_one_culprit_is_searched_for_once_and_explains_the_other_tests(lab: Lab) -> None:
    lab.faults.add("slow-node", node="rack01-n05", factor=0.3)
    run = ask(lab, {"nccl.all-reduce", "nccl.all-reduce-ib", "nccl.one-rail"})
    assert [(f.check, f.node) for f in standing(run)] == [("nccl.all-reduce.slow-node", "rack01-n05")]
    texts = {f.evidence.rpartition("/")[2] for f in run.racks[0].findings if "isolation" in f.evidence}
    assert texts == {"nccl-isolation"}


def test_a_slow_node_is_told_across_racks_and_the_other_rack_is_whole(lab: Lab) -> None:
    lab.faults.add("rail-gdr-slow", node="rack02-n03", port="mlx5_ib1", factor=0.3)
    run = ask(lab, {"nccl.across-racks"}, racks=None)
    assert [(f.check, f.node) for f in standing(run)] == [("nccl.across-racks.slow-node", "rack02-n03")]
    assert [rack.verdict for rack in run.racks] == [Verdict.ACCEPTED, Verdict.REJECTED]
    assert len(run.racks[1].usable_nodes) == 5
