"""Deploying through the real SDKs: deadlines, interruption, and going on afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ndctl.azure.clients import AzureClients, connect
from ndctl.azure.deployments import DeploymentEnd
from ndctl.azure.deployments import deploy as deploy_one
from ndctl.inventory.loader import Loaded
from ndctl.model.errors import ExitCode
from ndctl.model.events import Event
from ndctl.render import names
from ndctl.workflow import deploy as deploy_module
from ndctl.workflow.deploy import deploy
from ndctl.workflow.deploy_result import DeployResult, Fate
from ndctl.workflow.plan import Act, make_plan
from ndctl.workflow.prepare import render_to_deploy

if TYPE_CHECKING:
    from conftest import Region


@pytest.fixture
def loaded(region: Region) -> Loaded:
    return region.loaded()


@pytest.fixture
def clients(loaded: Loaded) -> Iterator[AzureClients]:
    made = connect(loaded)
    yield made
    made.close()


def run(loaded: Loaded, clients: AzureClients, **options: object) -> DeployResult:
    rendered = render_to_deploy(loaded)
    plan = make_plan(loaded, rendered, clients)
    return deploy(loaded, rendered, plan, clients, **options)  # type: ignore[arg-type]


def test_progress_tells_the_rack_and_its_counts(loaded: Loaded, clients: AzureClients) -> None:
    events: list[Event] = []
    result = run(loaded, clients, on_event=events.append)
    assert result.exit_code is ExitCode.OK
    rack = [event.message for event in events if event.rack == "rack01"]
    assert rack[0] == "create" and rack[-1] == "deployed: 18 of 18 VMs"
    assert "block 18 ✓   scale set ✓   running 18/18" in rack


def test_deadline_leaves_azure_at_work_and_says_so(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    region.faults.add("lro-never-ends", rack=1)
    result = run(loaded, clients, rack_deadline_s=0.5)
    rack = result.racks[0]
    assert rack.fate is Fate.STILL_RUNNING and rack.deployed_vms is None
    assert "Azure goes on with it" in rack.detail
    assert result.exit_code is ExitCode.DEPLOY_FAILED


def test_a_rack_that_is_deleted_before_it_is_counted_is_told_with_azures_word(
    loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = names.scale_set(loaded.inventory.cluster, 1)

    def deployed_then_deleted(*given: Any, **options: Any) -> DeploymentEnd:
        end = deploy_one(*given, **options)
        if given[1].name.endswith("rack01"):
            assert end.succeeded
            clients.compute.virtual_machine_scale_sets.begin_delete(clients.resource_group, lost).wait(60)
        return end

    monkeypatch.setattr(deploy_module, "deploy_one", deployed_then_deleted)
    (rack,) = run(loaded, clients).racks
    assert rack.fate is Fate.FAILED and rack.deployed_vms == 0 and "succeeded" in rack.detail
    assert rack.fault is not None and rack.fault.status == 404 and lost in rack.fault.innermost_message


def test_interrupted_then_going_on_waits_for_what_still_runs(
    region: Region, loaded: Loaded, clients: AzureClients
) -> None:
    region.faults.add("lro-never-ends", rack=1)
    stop = threading.Event()

    def interrupt(event: Event) -> None:
        if event.rack and event.status == "running":
            stop.set()

    first = run(loaded, clients, stop=stop, on_event=interrupt)
    assert first.racks[0].fate is Fate.STILL_RUNNING
    region.faults.clear()
    second = run(loaded, clients)
    assert second.exit_code is ExitCode.OK and second.racks[0].fate.as_planned


def test_only_what_the_plan_says_is_sent(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    run(loaded, clients)
    rendered = render_to_deploy(loaded)
    plan = make_plan(loaded, rendered, clients)
    assert plan.foundation.act is Act.NO_CHANGE and [step.act for step in plan.racks] == [Act.NO_CHANGE]
    before = len(region.requests())
    assert deploy(loaded, rendered, plan, clients).exit_code is ExitCode.OK
    assert region.requests()[before:] == []


def test_a_rack_that_fails_does_not_wait_for_others(
    region: Region,
) -> None:
    two = region.loaded(racks=2)
    region.faults.add("allocation-failure", rack=1)
    own = connect(two)
    result = run(two, own)
    own.close()
    assert [rack.fate for rack in result.racks] == [Fate.FAILED, Fate.DEPLOYED]
    fault = result.racks[0].fault
    assert fault is not None and fault.innermost_code == "AllocationFailed" and fault.retryable
    assert result.exit_code is ExitCode.DEPLOY_PARTIAL
