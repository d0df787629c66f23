"""Bad days of a deployment: each is planted in the region, met through the official SDKs, and ends well or plainly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ndctl.azure.clients import AzureClients, connect
from ndctl.azure.deployments import deploy as deploy_one
from ndctl.azure.scale_sets import list_instances
from ndctl.checks.azure_errors import FaultClass
from ndctl.inventory.loader import Loaded
from ndctl.model.errors import ExitCode
from ndctl.model.events import Event
from ndctl.render import names
from ndctl.workflow.deploy import deploy
from ndctl.workflow.deploy_result import DeployResult, Fate
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy

if TYPE_CHECKING:
    from conftest import Region


@pytest.fixture
def loaded(region: Region) -> Loaded:
    return region.loaded(racks=2)


@pytest.fixture
def clients(loaded: Loaded) -> Iterator[AzureClients]:
    made = connect(loaded)
    yield made
    made.close()


def run(loaded: Loaded, clients: AzureClients, **options: Any) -> DeployResult:
    rendered = render_to_deploy(loaded)
    return deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients, **options)


def once_in_mid_run(act: Callable[[], object]) -> Callable[[Event], None]:
    """An event sink that acts when the first rack is seen running."""
    done: list[bool] = []
    lock = threading.Lock()

    def sink(event: Event) -> None:
        if event.rack and event.status == "running":
            with lock:
                first = not done
                done.append(True)
            if first:
                act()

    return sink


def fates(result: DeployResult) -> list[Fate]:
    return [one.fate for one in result.racks]


def running(region: Region, group: str) -> dict[str, int]:
    """Scale set -> machines that the ledger charges for."""
    ledger = json.loads(region.directory.file("ledger.json").read_text())
    return {
        one["id"].rpartition("/")[2]: one["count"]
        for one in ledger
        if one["until"] is None and one["what"] == "scale set instances" and f"/{group}/" in one["id"]
    }


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("token-expired", {}),
        ("poll-error", {"count": 4, "status": 500}),
        ("poll-error", {"count": 12, "status": 503}),
        ("error-500", {"count": 2}),
        ("connection-reset", {"count": 2}),
        ("throttle", {"count": 6, "retry_after": 1}),
        ("azure-clock-skew", {"seconds": 7200}),
        ("azure-clock-skew", {"seconds": -7200}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(str(one) for one in value.values()),
)
def test_what_passes_is_ridden_out_in_mid_run(
    region: Region, loaded: Loaded, clients: AzureClients, kind: str, parameters: dict[str, Any]
) -> None:
    result = run(loaded, clients, on_event=once_in_mid_run(lambda: region.faults.add(kind, **parameters)))
    told = [(one.fate.value, one.fault and one.fault.summary) for one in result.racks]
    assert result.exit_code is ExitCode.OK, told
    assert set(running(region, clients.resource_group).values()) == {18}
    if kind == "throttle":
        assert clients.tally.calls().throttled == 6
    if kind == "azure-clock-skew":
        assert clients.clock.offset_s == pytest.approx(parameters["seconds"], abs=60)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("token-expired", {}),
        ("connection-reset", {"count": 2}),
        ("throttle", {"count": 3, "retry_after": 1}),
        ("error-500", {"count": 2}),
        ("azure-clock-skew", {"seconds": -86400}),
    ],
)
def test_what_passes_is_ridden_out_from_the_beginning(
    region: Region, loaded: Loaded, clients: AzureClients, kind: str, parameters: dict[str, Any]
) -> None:
    """Also while planning on a group that exists, where ARM is asked by POST."""
    clients.resources.resource_groups.create_or_update(clients.resource_group, {"location": clients.region})
    region.faults.add(kind, **parameters)
    assert run(loaded, clients).exit_code is ExitCode.OK


def test_a_storm_is_counted_and_waited_out_by_all_together(
    region: Region, loaded: Loaded, clients: AzureClients
) -> None:
    region.faults.add("throttle", count=25, retry_after=0)
    assert run(loaded, clients).exit_code is ExitCode.OK
    calls = clients.tally.calls()
    assert calls.throttled == 25 and "25 answered 429" in calls.line()
    assert calls.by_azure["Microsoft.Compute/virtualMachineScaleSets"] == 2, "refused deployments were counted"


def test_azures_own_record_is_asked_when_looking_fails(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    """The deployment fails while nobody can look at its operation: its own error is still what is told."""
    region.faults.add("allocation-failure", rack=1)
    result = run(
        loaded, clients, on_event=once_in_mid_run(lambda: region.faults.add("poll-error", count=30, status=502))
    )
    assert sorted(one.value for one in fates(result)) == ["deployed", "failed"]
    fault = next(one.fault for one in result.racks if one.fate is Fate.FAILED)
    assert fault is not None and fault.innermost_code == "AllocationFailed" and fault.retryable


def test_half_a_rack_is_kept_and_filled_later(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    region.faults.add("half-allocated", rack=2, count=16)
    first = run(loaded, clients)
    assert first.exit_code is ExitCode.DEPLOY_PARTIAL and fates(first) == [Fate.DEPLOYED, Fate.PARTIAL]
    rack = first.racks[1]
    assert (rack.deployed_vms, rack.expected_vms, len(rack.failed_instances)) == (16, 18, 2)
    second_rack = names.scale_set(loaded.inventory.cluster, 2)
    assert running(region, clients.resource_group)[second_rack] == 16, "rolled back"
    before = {one.vm_id for one in list_instances(clients, second_rack) if one.deployed}

    still = run(loaded, clients)
    assert still.exit_code is ExitCode.DEPLOY_PARTIAL and fates(still) == [Fate.UNCHANGED, Fate.PARTIAL]
    region.faults.clear()
    assert fates(run(loaded, clients)) == [Fate.UNCHANGED, Fate.DEPLOYED]
    assert running(region, clients.resource_group)[second_rack] == 18
    assert before <= {one.vm_id for one in list_instances(clients, second_rack)}, "the 16 were replaced"


@pytest.mark.parametrize(("zone", "code"), [("3", "SkuNotAvailable")])
def test_the_wrong_zone_is_named(region: Region, zone: str, code: str) -> None:
    loaded = region.loaded(zone=zone)
    own = connect(loaded)
    result = run(loaded, own)
    fault = result.racks[0].fault or result.foundation.fault
    assert result.exit_code in (ExitCode.DEPLOY_FAILED, ExitCode.PREFLIGHT)
    assert fault is not None and fault.innermost_code == code and fault.fault_class is FaultClass.CAPACITY
    assert region.billable(own.resource_group) == [] or not running(region, own.resource_group)
    own.close()


def test_quota_that_is_too_small(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    usages = clients.compute.usage.list(clients.region)
    used = next(one.current_value for one in usages if "gb300" in str(one.name.value).lower())
    region.faults.add("quota-exceeded", limit=used + 2304)
    result = run(loaded, clients)
    # One rack fits; which of the two it is, nobody knows beforehand.
    assert sorted(one.value for one in fates(result)) == ["deployed", "failed"]
    fault = next(one.fault for one in result.racks if one.fate is Fate.FAILED)
    assert fault is not None and fault.fault_class is FaultClass.QUOTA and not fault.retryable
    assert f"Current Limit: {used + 2304}" in fault.innermost_message and result.exit_code is ExitCode.DEPLOY_PARTIAL


def test_a_policy_is_called_by_its_name(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    region.faults.add("policy-denied", policy="gpus-need-approval")
    result = run(loaded, clients)
    faults = [one.fault for one in (result.foundation, *result.racks) if one.fault]
    assert faults and all(one.fault_class is FaultClass.POLICY for one in faults)
    assert "gpus-need-approval" in faults[0].innermost_message and "gpus-need-approval" in faults[0].next_step
    assert "{" not in json.dumps([one.innermost_message for one in faults])


def test_somebody_deletes_the_group_in_mid_run(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    other = connect(loaded)
    result = run(
        loaded,
        clients,
        on_event=once_in_mid_run(lambda: other.resources.resource_groups.begin_delete(other.resource_group).wait(60)),
    )
    other.close()
    assert result.exit_code in (ExitCode.DEPLOY_FAILED, ExitCode.DEPLOY_PARTIAL)
    for one in result.racks:
        assert one.fate is not Fate.STILL_RUNNING and (one.fault is not None or one.fate is Fate.DEPLOYED)
    assert run(loaded, clients).exit_code is ExitCode.OK
    assert set(running(region, clients.resource_group).values()) == {18}


def test_somebody_deletes_what_racks_stand_on(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    """Between plan and deploy: the plan is of another world, which Azure says, and the next one mends it."""
    rendered = render_to_deploy(loaded)
    foundation = make_plan(loaded, rendered, clients).foundation
    clients.resources.resource_groups.create_or_update(
        clients.resource_group, {"location": clients.region, "tags": {"ndctl-created-group": loaded.inventory.cluster}}
    )
    end = deploy_one(clients, rendered.foundation, deadline_s=60, stop=threading.Event(), on_progress=lambda seen: None)
    assert end.succeeded and foundation.act.sends
    plan = make_plan(loaded, rendered, clients)
    assert not plan.foundation.act.sends
    group = names.interconnect_group(loaded.inventory.cluster)
    clients.network.interconnect_groups.delete(clients.resource_group, group)
    result = deploy(loaded, rendered, plan, clients)
    assert fates(result) == [Fate.FAILED, Fate.FAILED]
    assert all(one.fault is not None and group in one.fault.innermost_message for one in result.racks)
    assert run(loaded, clients).exit_code is ExitCode.OK


def test_a_rack_that_somebody_deleted_comes_back(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    assert run(loaded, clients).exit_code is ExitCode.OK
    lost = names.scale_set(loaded.inventory.cluster, 1)
    clients.compute.virtual_machine_scale_sets.begin_delete(clients.resource_group, lost).wait(60)
    assert running(region, clients.resource_group) == {names.scale_set(loaded.inventory.cluster, 2): 18}
    assert fates(run(loaded, clients)) == [Fate.DEPLOYED, Fate.UNCHANGED]
    assert running(region, clients.resource_group)[lost] == 18


def test_a_group_that_is_deleted_in_mid_run_is_told_as_gone(
    region: Region, loaded: Loaded, clients: AzureClients
) -> None:
    region.faults.add("lro-never-ends", rack=2)

    def delete() -> None:
        clients.resources.resource_groups.begin_delete(clients.resource_group).result()

    result = run(loaded, clients, on_event=once_in_mid_run(delete))
    gone = result.racks[1]
    assert gone.fate is Fate.FAILED and gone.fault is not None
    assert gone.fault.innermost_code in ("DeploymentNotFound", "ResourceGroupNotFound")
    assert "ndctl deploy" in gone.fault.next_step and result.exit_code is not ExitCode.OK
