"""Repairs against the embedded region: evidence first, places kept, keys learned anew, gone on with when cut off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from ndctl.azure import repair as azure_repair
from ndctl.azure.clients import AzureClients, connect
from ndctl.cli.repair import result_lines
from ndctl.inventory.loader import Loaded, load
from ndctl.jobs.lease import Lease, give_back, take
from ndctl.jobs.lease_process import this_process
from ndctl.model.answers import NodeAnswer, Outcome, OutcomeKind
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Node
from ndctl.report import schemas
from ndctl.workflow import validate as validate_module
from ndctl.workflow.deploy import deploy
from ndctl.workflow.host_keys import known_hosts_path
from ndctl.workflow.nodes import discover, learn_host_keys
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy
from ndctl.workflow.repair import repair
from ndctl.workflow.repair_act import NodeRepair
from ndctl.workflow.repair_plan import RepairPlan, plan_repair
from ndctl.workflow.repair_refusals import RepairRequest, done_by_ssh, refuse_off_azure
from ndctl.workflow.repair_result import RepairResult
from ndctl.workflow.repair_state import Entry, Phase, RepairAction, Repairs
from ndctl.workflow.state_dir import cluster_dir
from ndctl.workflow.transport import open_transport

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


def test_static_racks_take_what_can_be_done_over_ssh(loaded: Loaded) -> None:
    path = loaded.path.with_name("lab.yaml")
    path.write_text("cluster: lab\nprofile: gb300\nstatic:\n  - {rack: 1, nodes: [127.0.0.1]}\n")
    lab = load(path)
    for action in RepairAction:
        if action in (RepairAction.RESET_GPU, RepairAction.RESTART_IMEX, RepairAction.REBOOT):
            refuse_off_azure(lab, action)
            assert done_by_ssh(lab, action)
        else:
            with pytest.raises(NdctlError, match="lists static racks, not on Azure") as refused:
                plan_repair(lab, request(lab, action), None)
            assert refused.value.exit_code is ExitCode.USAGE


def test_keys_are_learned_of_the_rack_that_is_asked_and_of_no_other(region: Region) -> None:
    """Each is a Run Command, so that a large cluster would pay for every node of it."""
    loaded = region.loaded(racks=2, vms_per_rack=2)
    with closing(connect(loaded)) as clients:
        rendered = render_to_deploy(loaded)
        deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients)
        (end,) = done(loaded, clients, RepairAction.REBOOT, force=True, max_percent=100).ends
    assert end.entry is not None and end.entry.validated
    known = json.loads((cluster_dir(loaded.inventory, loaded.path) / "host_keys.json").read_text())["nodes"]
    assert sorted(known) == ["rack01-n01", "rack01-n02"]


def test_a_node_that_is_no_better_ends_with_what_to_look_at(
    region: Region, loaded: Loaded, clients: AzureClients
) -> None:
    region.faults.add("nvlink-down", node="rack01-n03", cluster=loaded.inventory.cluster, gpu=2, link=8)
    result = done(loaded, clients, RepairAction.REBOOT, "rack01-n03", force=True, max_percent=100)
    assert result.exit_code is ExitCode.REJECTED
    assert result.summary == "reboot of 1 node: 1 back"
    (told,) = (line for line in result_lines(result) if line.startswith("next: "))
    assert told.startswith(f"next: ndctl report {result.runs[0].id}")


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


def charged(region: Region, loaded: Loaded) -> list[int]:
    """VMs of the cluster's scale set that are charged for now."""
    told = json.loads(region.directory.file("ledger.json").read_text())
    mine = set(region.billable(loaded.inventory.resource_group or ""))
    return [one["count"] for one in told if one["id"] in mine and "ScaleSets" in one["id"] and one["until"] is None]


@pytest.mark.parametrize(("kind", "more"), [("allocation-failure", {}), ("half-allocated", {"count": 3})])
def test_no_capacity_for_the_new_vm_is_said_charged_rightly_and_gone_on_with(
    region: Region, loaded: Loaded, clients: AzureClients, kind: str, more: dict[str, int]
) -> None:
    before = {one.name: one.vm_id for one in discover(loaded, clients).nodes}
    region.faults.add(kind, rack=1, **more)
    short = done(loaded, clients, RepairAction.REPLACE)
    (end,) = short.ends
    assert end.entry is not None and end.entry.phase is Phase.DELETED and not end.entry.ended
    assert short.exit_code is ExitCode.DEPLOY_FAILED and short.runs == ()
    assert end.error is not None and "AllocationFailed" in end.error.message, end.error
    assert charged(region, loaded) == [3]

    region.faults.clear()
    gone_on = done(loaded, clients, RepairAction.REPLACE)
    (end,) = gone_on.ends
    assert end.entry is not None and end.entry.phase is Phase.BACK and end.entry.validated
    after = {one.name: one.vm_id for one in discover(loaded, clients).nodes}
    assert set(after) == set(before) and [name for name in before if after[name] != before[name]] == [NODE]
    assert charged(region, loaded) == [4] and gone_on.exit_code is ExitCode.OK


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


def sent(region: Region, action: str) -> int:
    """How often the region was told to do it."""
    return sum(one["path"].endswith(f"/{action}") and one["method"] == "POST" for one in region.requests())


def entry_of(loaded: Loaded) -> Entry:
    entry = Repairs(cluster_dir(loaded.inventory, loaded.path)).get(NODE)
    assert entry is not None
    return entry


def test_an_action_that_was_cut_off_while_azure_did_it_is_not_sent_again(
    region: Region, loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sent(region, "redeploy")
    with monkeypatch.context() as patch:

        def cut(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(azure_repair, "finish", cut)
        assert done(loaded, clients, RepairAction.REDEPLOY).exit_code is ExitCode.INTERRUPTED
    entry = entry_of(loaded)
    assert entry.phase is Phase.ACTING and "/operations/" in entry.operation
    with pytest.raises(NdctlError, match="was cut off"):
        plan(loaded, clients, RepairAction.REBOOT)
    again = done(loaded, clients, RepairAction.REDEPLOY)
    assert again.exit_code is ExitCode.OK, json.dumps(standing(again))
    assert sent(region, "redeploy") == before + 1
    told = again.as_dict()
    assert list(Draft202012Validator(schemas.load("repair")).iter_errors(told)) == []
    planned = plan(loaded, clients, RepairAction.REBOOT).as_dict()
    assert list(Draft202012Validator(schemas.load("repair")).iter_errors(planned)) == []


def test_what_is_refused_ends_and_what_does_not_come_back_can_be_tried_otherwise(
    region: Region, loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/restart/action"
    refusing = region.faults.add("permission-denied", action=action)
    refused = done(loaded, clients, RepairAction.REBOOT)
    region.faults.clear(id=refusing.id)
    assert refused.exit_code is ExitCode.PERMISSION and not refused.runs
    assert entry_of(loaded).phase is Phase.FAILED and entry_of(loaded).ended and not entry_of(loaded).under_way
    # Nothing is under way, so another node of the rack may be repaired.
    assert not plan(loaded, clients, RepairAction.REBOOT, "rack01-n03").counted

    unreached = Outcome(OutcomeKind.UNREACHABLE, "no SSH banner")
    with monkeypatch.context() as patch:
        patch.setattr(NodeRepair, "_ask", lambda self, cluster, node: NodeAnswer(node, unreached, {}))
        silent = repair(plan(loaded, clients, RepairAction.REBOOT), clients, back_within_s=0.0)
    assert silent.exit_code is ExitCode.INCOMPLETE and entry_of(loaded).phase is Phase.NOT_BACK
    assert "did not answer by SSH" in entry_of(loaded).error
    with pytest.raises(NdctlError, match=r"reboot at .*, and it did not come back"):
        plan(loaded, clients, RepairAction.REBOOT, "rack01-n03")
    assert plan(loaded, clients, RepairAction.REDEPLOY).targets[0].going_on is None

    mate = node(loaded, clients, "rack01-n03")
    learn_host_keys(loaded, discover(loaded, clients), clients=clients)
    with closing(open_transport(loaded, discover(loaded, clients), 4)) as transport:
        assert take(transport, [mate], "first@ops-2, run x", "theirs", 600).taken
        with pytest.raises(
            NdctlError, match=r"active test holds the rack: first@ops-2, run x.*\(on rack01-n03\)"
        ) as held:
            plan(loaded, clients, RepairAction.REDEPLOY)
        assert held.value.exit_code is ExitCode.PREFLIGHT
        made = plan(loaded, clients, RepairAction.RESTART_IMEX, force=True)
        with pytest.raises(NdctlError, match="active test holds the rack"):
            repair(replace(made, request=replace(made.request, force=False)), clients)
        give_back(transport, Lease((mate,), "theirs"))
    assert plan(loaded, clients, RepairAction.REDEPLOY).leased


def test_the_lease_of_a_repair_that_was_killed_while_it_validated_stops_nobody(
    loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its validation held the rack under a token of its own, and its process on this machine is gone."""
    plan(loaded, clients, RepairAction.REBOOT)  # learns the jump host
    cluster = discover(loaded, clients)
    with closing(open_transport(loaded, cluster, 4)) as transport:
        mark, pid, start = this_process().split()
        with monkeypatch.context() as patch:
            patch.setattr("ndctl.jobs.lease.this_process", lambda: f"{mark} {pid} {int(start) - 1}")
            assert take(transport, cluster.nodes, "first@ops-1, run x", "run-x", 600).taken
    again = done(loaded, clients, RepairAction.REBOOT)
    assert again.exit_code is ExitCode.OK, json.dumps(standing(again))


def test_ctrl_c_while_evidence_is_taken_keeps_the_action_from_being_sent(
    region: Region, loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sent(region, "restart")
    asked = validate_module.gather

    def cut(*arguments: Any) -> None:
        asked(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(validate_module, "gather", cut)
    result = done(loaded, clients, RepairAction.REBOOT)
    assert result.exit_code is ExitCode.INTERRUPTED and entry_of(loaded).phase is Phase.BEGUN
    assert sent(region, "restart") == before and not any(end.sent for end in result.ends)
    # It changed nothing, so it is counted against nobody.
    assert not plan(loaded, clients, RepairAction.REBOOT, "rack01-n03").counted
