"""Each fault that can be planted is found by name, and nothing else is blamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ndctl.model.findings import Finding, Run
from ndctl.model.status import Group, Level, Status, Verdict
from ndctl.workflow.validate import Request, validate_inventories
from tests.e2e.explained import unexplained
from tests.e2e.lab import Lab

pytestmark = pytest.mark.xdist_group("lab")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    one = Lab(tmp_path_factory.mktemp("lab"))
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _clean(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    yield
    lab.faults.clear()
    lab.sync()


def ask(lab: Lab, level: Level = Level.QUICK, only: frozenset[Group] = frozenset(Group), **more: object) -> Run:
    lab.sync()
    run = validate_inventories(Request(paths=(lab.inventory,), level=level, groups=only, **more))  # type: ignore[arg-type]
    assert unexplained(run) == []
    return run


def standing(run: Run) -> list[Finding]:
    bad = (Status.FAIL, Status.WARN, Status.UNKNOWN)
    return [f for rack in run.racks for f in rack.findings if f.status in bad and not f.caused_by]


def blamed(run: Run) -> set[tuple[str, str]]:
    return {(f.check, f.node) for f in standing(run)}


def test_a_healthy_rack_is_accepted(lab: Lab) -> None:
    run = ask(lab)
    assert standing(run) == []
    assert run.racks[0].verdict is Verdict.ACCEPTED
    assert len(run.racks[0].usable_nodes) == 18
    assert run.exit_code == 0


CASES = [
    ("gpu-hot", {"node": "rack01-n06", "gpu": 1}, Verdict.DEGRADED, {("gpu.temperature.hotter", "rack01-n06")}),
    ("gpu-throttled", {"node": "rack01-n06"}, Verdict.DEGRADED, {("gpu.clocks.slowed-for-a-while", "rack01-n06")}),
    ("power-limit-differs", {"node": "rack01-n06"}, Verdict.DEGRADED, {("gpu.power.differs", "rack01-n06")}),
    ("c2c-link-down", {"node": "rack01-n06"}, Verdict.REJECTED, {("gpu.c2c.link-down", "rack01-n06")}),
    ("pcie-narrow", {"node": "rack01-n06"}, Verdict.DEGRADED, {("gpu.links.pcie-width", "rack01-n06")}),
    ("gpu-missing", {"node": "rack01-n04", "gpu": 1}, Verdict.REJECTED, {("gpu.count", "rack01-n04")}),
    (
        "nvlink-down",
        {"node": "rack01-n11", "gpu": 2, "link": 8},
        Verdict.REJECTED,
        {("nvlink.links.link-down", "rack01-n11")},
    ),
    (
        "port-half-rate",
        {"node": "rack01-n07", "port": "mlx5_ib2"},
        Verdict.REJECTED,
        {("infiniband.ports.*", "rack01-n07")},
    ),
    ("port-down", {"node": "rack01-n07", "port": "mlx5_ib0"}, Verdict.REJECTED, {("infiniband.ports.*", "rack01-n07")}),
    ("wrong-pkey", {"node": "rack01-n02"}, Verdict.REJECTED, {("infiniband.pkeys", "rack01-n02")}),
    ("imex-peer-missing", {"node": "rack01-n09"}, Verdict.REJECTED, {("nvlink.imex.*", "rack01-n09")}),
    ("ecc-uncorrectable", {"node": "rack01-n05"}, Verdict.REJECTED, {("gpu.health.*", "rack01-n05")}),
    ("row-remap-pending", {"node": "rack01-n05"}, Verdict.REJECTED, {("gpu.health.*", "rack01-n05")}),
    ("row-remap-failure", {"node": "rack01-n05"}, Verdict.REJECTED, {("gpu.health.*", "rack01-n05")}),
    ("inforom-corrupt", {"node": "rack01-n05"}, None, {("gpu.health.*", "rack01-n05")}),
    ("clique-split", {"node": "rack01-n13"}, Verdict.REJECTED, {("nvlink.clique", "rack01-n13")}),
    ("fabric-unregistered", {"node": "rack01-n13"}, Verdict.REJECTED, {("nvlink.fabric.*", "rack01-n13")}),
    (
        "symbol-errors",
        {"node": "rack01-n03", "port": "mlx5_ib1"},
        Verdict.DEGRADED,
        {("infiniband.counters", "rack01-n03")},
    ),
    ("port-narrow", {"node": "rack01-n07"}, Verdict.REJECTED, {("infiniband.ports.port-width", "rack01-n07")}),
    ("port-flaps", {"node": "rack01-n03"}, Verdict.REJECTED, {("infiniband.flaps", "rack01-n03")}),
    ("port-flaps", {"node": "rack01-n03", "times": 2}, Verdict.DEGRADED, {("infiniband.flaps.lost", "rack01-n03")}),
    (
        "adapter-unhealthy",
        {"node": "rack01-n03"},
        Verdict.REJECTED,
        {("infiniband.adapters.mlx5-health", "rack01-n03")},
    ),
    ("lid-zero", {"node": "rack01-n03"}, Verdict.REJECTED, {("infiniband.addresses.no-lid", "rack01-n03")}),
    ("counter-pegged", {"node": "rack01-n03"}, Verdict.INCOMPLETE, {("infiniband.counters.pegged", "rack01-n03")}),
    ("rail-map-differs", {"node": "rack01-n03"}, Verdict.DEGRADED, {("infiniband.rails.differs", "rack01-n03")}),
    ("gpudirect-missing", {"node": "rack01-n03"}, Verdict.DEGRADED, {("infiniband.gpudirect.missing", "rack01-n03")}),
    ("imex-version", {"node": "rack01-n09"}, Verdict.DEGRADED, {("nvlink.imex.version", "rack01-n09")}),
    ("imex-list-drift", {"node": "rack01-n09"}, Verdict.REJECTED, {("nvlink.imex-list", "rack01-n09")}),
    ("fabric-manager-active", {"node": "rack01-n09"}, Verdict.REJECTED, {("nvlink.fabric-manager", "rack01-n09")}),
    ("nvlink-recovers", {"node": "rack01-n09"}, Verdict.DEGRADED, {("nvlink.errors.recovery", "rack01-n09")}),
    ("nvme-missing", {"node": "rack01-n12"}, Verdict.REJECTED, {("host.nvme.missing", "rack01-n12")}),
    ("nvme-media-errors", {"node": "rack01-n12"}, Verdict.DEGRADED, {("host.smart.media-errors", "rack01-n12")}),
    ("ro-mount", {"node": "rack01-n08"}, Verdict.REJECTED, {("host.mounts.read-only", "rack01-n08")}),
    ("disk-full", {"node": "rack01-n08"}, Verdict.REJECTED, {("host.disk.full", "rack01-n08")}),
    ("clock-skew", {"node": "rack01-n16"}, Verdict.DEGRADED, {("host.clock.offset", "rack01-n16")}),
    ("failed-unit", {"node": "rack01-n16"}, Verdict.DEGRADED, {("host.units.failed", "rack01-n16")}),
    ("d-state", {"node": "rack01-n14"}, Verdict.DEGRADED, {("host.tasks.stuck", "rack01-n14")}),
    ("oom-killed", {"node": "rack01-n14"}, Verdict.DEGRADED, {("host.kernel.out-of-memory", "rack01-n14")}),
    ("component-drift", {"node": "rack01-n10"}, Verdict.DEGRADED, {("host.components.differs", "rack01-n10")}),
    ("setting-drift", {"node": "rack01-n10"}, Verdict.DEGRADED, {("host.settings.sysctl.differs", "rack01-n10")}),
    ("cpus-offline", {"node": "rack01-n10"}, Verdict.REJECTED, {("host.numa.cpus-offline", "rack01-n10")}),
    ("node-down", {"node": "rack01-n18"}, Verdict.INCOMPLETE, {("host.reachable", "rack01-n18")}),
]


@pytest.mark.parametrize(("kind", "where", "verdict", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_planted_fault_is_found_and_nothing_else(
    lab: Lab, kind: str, where: dict[str, object], verdict: Verdict | None, expected: set[tuple[str, str]]
) -> None:
    lab.faults.add(kind, **where)
    run = ask(lab)
    found = blamed(run)
    prefixes = {(check.removesuffix(".*"), node) for check, node in expected}
    strangers = {one for one in found if not any(one[0].startswith(p) and one[1] == n for p, n in prefixes)}
    assert strangers == set(), f"{kind}: also blamed {strangers}"
    assert found, f"{kind} was not found"
    rack = run.racks[0]
    if verdict is not None:
        assert rack.verdict is verdict
    node = str(where["node"])
    if rack.verdict is not Verdict.DEGRADED and verdict is not None:
        assert node not in rack.usable_nodes
    assert len(rack.usable_nodes) >= 17
    for finding in standing(run):
        assert finding.message
        if finding.status is Status.FAIL:
            assert finding.cause and finding.action.value != "none", finding


def test_a_hung_driver_costs_one_node_and_is_unknown(lab: Lab) -> None:
    lab.faults.add("hung-nvidia-smi", node="rack01-n06")
    run = ask(lab)
    assert blamed(run) == {("gpu.driver", "rack01-n06")}
    assert standing(run)[0].status is Status.UNKNOWN
    assert run.racks[0].verdict is Verdict.INCOMPLETE
    assert len(run.racks[0].usable_nodes) == 17


def test_a_rack_that_still_starts_is_waited_for(lab: Lab) -> None:
    lab.faults.add("fabric-settling", node="rack01-n06")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 16:  # in the second pause; a pause is slept in seconds, so that a stop is heeded
            lab.faults.clear()

    lab.sync()
    run = validate_inventories(Request(paths=(lab.inventory,), level=Level.QUICK), sleep=sleep)
    assert sum(slept) == 30 and standing(run) == []
    assert run.racks[0].verdict is Verdict.ACCEPTED


def test_counters_that_stand_still_under_ib_write_bw_are_unknown(lab: Lab) -> None:
    lab.faults.add("counters-frozen", node="rack01-n03", port="mlx5_ib2")
    assert ask(lab).racks[0].verdict is Verdict.ACCEPTED, "at rest nobody can tell"
    run = ask(lab, Level.STANDARD, frozenset({Group.INFINIBAND}))
    assert {(f.check, f.node, f.subject, f.status) for f in standing(run)} == {
        ("infiniband.counters.not-observable", "rack01-n03", "mlx5_ib2", Status.UNKNOWN)
    }
    assert run.racks[0].verdict is Verdict.INCOMPLETE


def test_gpus_in_use_keep_active_tests_away_from_their_node(lab: Lab) -> None:
    lab.faults.add("gpu-busy", node="rack01-n01")
    run = ask(lab, Level.STANDARD, frozenset({Group.NCCL, Group.GPU}))
    skipped = [f for f in run.racks[0].findings if f.status is Status.SKIP and f.check == "nccl.all-reduce.left-out"]
    assert [f.node for f in skipped] == ["rack01-n01"]
    assert run.racks[0].verdict is Verdict.INCOMPLETE
    assert run.exit_code == 8


def test_a_slow_node_is_named_by_nccl(lab: Lab) -> None:
    lab.faults.add("slow-node", node="rack01-n15")
    run = ask(lab, Level.STANDARD, frozenset({Group.NCCL, Group.GPU, Group.NVLINK}))
    assert run.racks[0].verdict is Verdict.REJECTED
    assert {f.node for f in standing(run)} == {"rack01-n15"}
    assert "rack01-n15" not in run.racks[0].usable_nodes
    assert len(run.racks[0].usable_nodes) == 17


def test_nccl_over_a_healthy_rack_proves_its_transport_and_leaves_nothing_behind(lab: Lab) -> None:
    run = ask(lab, Level.STANDARD, frozenset({Group.NCCL, Group.GPU}))
    passed = [f for f in run.racks[0].findings if f.check == "nccl.all-reduce"]
    assert [f.status for f in passed] == [Status.PASS]
    assert isinstance(passed[0].value, float) and passed[0].value > 800 and passed[0].unit == "GB/s"
    for vm in lab.world.vms():
        _, stdout, _ = lab.world.shell(vm, "cat ~/.ssh/authorized_keys 2>/dev/null; ls -A ~ | grep ndctl-job; true")
        assert "ndctl-job" not in stdout


def test_a_port_at_half_rate_explains_the_slow_pairs(lab: Lab) -> None:
    lab.faults.add("port-half-rate", node="rack01-n07", port="mlx5_ib2")
    run = ask(lab, Level.STANDARD, frozenset({Group.INFINIBAND}))
    assert {(f.node, f.subject.split()[0]) for f in standing(run)} == {("rack01-n07", "mlx5_ib2")}
    slow = [f for f in run.racks[0].findings if f.check.startswith("infiniband.write-bw") and f.status is Status.FAIL]
    assert slow and all(f.caused_by for f in slow)
