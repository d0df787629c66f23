"""Repairs against the embedded region: evidence first, places kept, keys learned anew, gone on with when cut off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ndctl.azure import repair as azure_repair
from ndctl.azure.clients import AzureClients, connect
from ndctl.inventory.loader import Loaded, load
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Node
from ndctl.workflow.deploy import deploy
from ndctl.workflow.host_keys import known_hosts_path
from ndctl.workflow.nodes import discover, learn_host_keys
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy
from ndctl.workflow.repair import repair
from ndctl.workflow.repair_plan import RepairPlan, plan_repair
from ndctl.workflow.repair_refusals import RepairRequest
from ndctl.workflow.repair_result import RepairResult
from ndctl.workflow.repair_state import Phase, RepairAction, Repairs
from ndctl.workflow.state_dir import cluster_dir

if TYPE_CHECKING:
    from conftest import Region

NODE = "rack01-n02"


@pytest.fixture
def loaded(region: Region) -> Loaded:
    return region.loaded(vms_per_rack=4)


@pytest.fixture
def clients(loaded: Loaded) -> Iterator[AzureClients]:
    made = connect(loaded)
    rendered = render_to_deploy(loaded)
    deploy(loaded, rendered, make_plan(loaded, rendered, made), made)
    learn_host_keys(loaded, discover(loaded, made), clients=made)
    yield made
    made.close()


def request(loaded: Loaded, action: RepairAction, *nodes: str, **more: Any) -> RepairRequest:
    return RepairRequest(loaded.path, nodes or (NODE,), action, **more)


def node(loaded: Loaded, clients: AzureClients, name: str = NODE) -> Node:
    return next(one for one in discover(loaded, clients).nodes if one.name == name)


def plan(loaded: Loaded, clients: AzureClients, action: RepairAction, *nodes: str, **more: Any) -> RepairPlan:
    return plan_repair(loaded, request(loaded, action, *nodes, **more), clients)


def done(loaded: Loaded, clients: AzureClients, action: RepairAction, *nodes: str, **more: Any) -> RepairResult:
    return repair(plan(loaded, clients, action, *nodes, **more), clients)


def standing(result: RepairResult) -> list[Any]:
    """What of the runs is not well, for a failing test."""
    return [
        (run.level, rack.verdict.value, [(f.check, f.node, f.message) for f in rack.findings if f.status != "pass"])
        for run in result.runs
        for rack in run.racks
    ]


def test_replacing_a_node_keeps_its_place(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    cluster = loaded.inventory.cluster
    region.faults.add("port-half-rate", node=NODE, cluster=cluster, port="mlx5_ib1")
    before = {one.name: one for one in discover(loaded, clients).nodes}
    key_before = known_hosts_path(loaded).read_text()
    result = done(loaded, clients, RepairAction.REPLACE)
    after = {one.name: one for one in discover(loaded, clients).nodes}
    assert set(after) == set(before)
    assert after[NODE].vm_id != before[NODE].vm_id and after[NODE].instance_id != before[NODE].instance_id
    assert all(after[name].vm_id == before[name].vm_id for name in before if name != NODE)
    assert known_hosts_path(loaded).read_text() != key_before
    (end,) = result.ends
    assert end.entry is not None and end.entry.phase is Phase.BACK and end.entry.validated
    assert end.entry.before.physical_host and end.entry.after.physical_host
    assert end.entry.before.physical_host != end.entry.after.physical_host and not end.same_host
    assert end.entry.before.boot_id and end.entry.gap == ""
    evidence = Path(end.entry.evidence) / "nodes" / NODE
    for part in (
        "nvidia-smi-xml",
        "physical-host",
        "kernel-log",
        "imex-domain",
        "ib-counters-after",
        "arm-instance-view",
    ):
        assert (evidence / f"{part}.1.out").stat().st_size > 0, part
    assert [run.level for run in result.runs] == ["standard", "quick"]
    assert result.runs[1].racks[0].verdict.value == "accepted", result.runs[1].racks[0].findings
    ledger = region.billable(loaded.inventory.resource_group or "")
    assert sum("virtualMachineScaleSets" in one for one in ledger) == 1
    told = json.loads(region.directory.file("ledger.json").read_text())
    sets = [one for one in told if one["id"] in ledger and "virtualMachineScaleSets" in one["id"]]
    assert [one["count"] for one in sets] == [4, 3, 4] and [one["until"] is None for one in sets] == [
        False,
        False,
        True,
    ]
    assert result.exit_code is ExitCode.OK, json.dumps(standing(result))


def test_what_must_not_be_done_is_refused(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    cluster = loaded.inventory.cluster

    def refused(action: RepairAction, *nodes: str, **more: Any) -> NdctlError:
        with pytest.raises(NdctlError) as caught:
            plan(loaded, clients, action, *nodes, **more)
        return caught.value

    two = refused(RepairAction.REBOOT, "rack01-n01", "rack01-n02")
    assert (two.code, two.exit_code) == ("repair.blast-radius", ExitCode.PREFLIGHT)
    assert "rack01: 2 nodes would be away at once, 1 allowed" in two.message
    assert refused(RepairAction.REBOOT, "rack01-n09").code == "nodes.no-such-node"
    region.faults.add("slurm-allocated", node=NODE, cluster=cluster)
    for _ in range(50):  # the nodes see what is planted within a moment
        try:
            plan(loaded, clients, RepairAction.REBOOT)
        except NdctlError as error:
            assert (error.code, error.exit_code) == ("repair.in-use", ExitCode.PREFLIGHT)
            assert "Slurm says ALLOCATED" in error.message
            break
    else:
        pytest.fail("a node that Slurm has allocated may be rebooted")
    assert plan(loaded, clients, RepairAction.REBOOT, force=True).targets[0].node.name == NODE
    region.change(loaded.path, protect=True)
    protected = load(loaded.path)
    with pytest.raises(NdctlError, match="is protected") as caught:
        plan_repair(protected, request(protected, RepairAction.REPLACE), clients)
    assert caught.value.exit_code is ExitCode.PREFLIGHT


def test_a_replacement_that_was_cut_off_is_gone_on_with(
    loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {one.name: one for one in discover(loaded, clients).nodes}
    grow = azure_repair.grow

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(azure_repair, "grow", cut)
    interrupted = repair(plan(loaded, clients, RepairAction.REPLACE), clients)
    assert interrupted.exit_code is ExitCode.INTERRUPTED
    entry = Repairs(cluster_dir(loaded.inventory, loaded.path)).get(NODE)
    assert entry is not None and entry.phase is Phase.DELETED and entry.evidence
    assert NODE not in {one.name for one in discover(loaded, clients).nodes}
    with pytest.raises(NdctlError, match="a replace begun by"):
        plan(loaded, clients, RepairAction.REBOOT)
    with pytest.raises(NdctlError, match="2 nodes would be away at once"):
        plan(loaded, clients, RepairAction.REBOOT, "rack01-n03")
    monkeypatch.setattr(azure_repair, "grow", grow)
    again = repair(plan(loaded, clients, RepairAction.REPLACE), clients)
    assert again.exit_code is ExitCode.OK, json.dumps(standing(again))
    after = {one.name: one for one in discover(loaded, clients).nodes}
    assert set(after) == set(before) and after[NODE].vm_id != before[NODE].vm_id
    assert again.ends[0].entry is not None and again.ends[0].entry.evidence == entry.evidence
