"""Only what carries the cluster's tags goes; the group only when ndctl made it and nothing else is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import ndctl.workflow.destroy
from ndctl.azure.clients import AzureClients, connect
from ndctl.azure.faults import AzureFault, fault_from_body
from ndctl.azure.resources import Resource, delete_resource
from ndctl.cli.destroy import result_lines
from ndctl.inventory.loader import Loaded, load
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.deploy import deploy
from ndctl.workflow.destroy import destroy, plan_destroy
from ndctl.workflow.plan import make_plan
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


def deployed(loaded: Loaded, clients: AzureClients) -> None:
    rendered = render_to_deploy(loaded)
    assert deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients).exit_code is ExitCode.OK


def group(clients: AzureClients) -> Any:
    return clients.resources.resource_groups


def test_users_go_before_what_they_use(loaded: Loaded, clients: AzureClients) -> None:
    deployed(loaded, clients)
    kinds = [one.type.rpartition("/")[2] for one in plan_destroy(loaded, clients).resources]
    assert kinds[:3] == ["virtualMachineScaleSets", "interconnectBlocks", "interconnectGroups"]
    assert kinds.index("virtualNetworks") < kinds.index("networkSecurityGroups")
    block = next(one for one in plan_destroy(loaded, clients).resources if one.type.endswith("interconnectBlocks"))
    refused = delete_resource(clients, block)
    assert refused is not None, "the region deletes a block while VMs are in it: the order would not matter"


def test_everything_goes_with_the_group_that_ndctl_made(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    deployed(loaded, clients)
    result = destroy(plan_destroy(loaded, clients), clients)
    assert result.exit_code is ExitCode.OK and result.group_deleted
    assert not group(clients).check_existence(clients.resource_group)
    assert region.billable(clients.resource_group) == []
    again = plan_destroy(loaded, clients)
    assert again.nothing_to_do and destroy(again, clients).exit_code is ExitCode.OK


def test_a_group_that_was_there_before_stays(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    group(clients).create_or_update(clients.resource_group, {"location": clients.region})
    deployed(loaded, clients)
    result = destroy(plan_destroy(loaded, clients), clients)
    assert result.exit_code is ExitCode.OK and not result.group_deleted
    assert group(clients).check_existence(clients.resource_group)
    assert region.billable(clients.resource_group) == []


def test_what_is_not_ours_stays_and_keeps_the_group(loaded: Loaded, clients: AzureClients) -> None:
    deployed(loaded, clients)
    clients.network.public_ip_addresses.begin_create_or_update(
        clients.resource_group,
        "somebodys-ip",
        {"location": clients.region, "sku": {"name": "Standard"}, "properties": {"publicIPAllocationMethod": "Static"}},
    ).wait(60)
    plan = plan_destroy(loaded, clients)
    assert [one.name for one in plan.group.foreign] == ["somebodys-ip"] and not plan.deletes_group
    assert destroy(plan, clients).exit_code is ExitCode.OK
    left = [one.name for one in clients.resources.resources.list_by_resource_group(clients.resource_group)]
    assert left == ["somebodys-ip"]


def test_another_cluster_in_the_same_group_stays(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    deployed(loaded, clients)
    other = region.loaded(resource_group=clients.resource_group)
    deployed(other, clients)
    result = destroy(plan_destroy(loaded, clients), clients)
    assert result.exit_code is ExitCode.OK and not result.group_deleted
    rest = [one.name for one in clients.resources.resources.list_by_resource_group(clients.resource_group)]
    assert rest and all(name.startswith(f"{other.inventory.cluster}-") for name in rest)


def test_what_fails_is_named_and_the_rest_goes(
    loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(loaded, clients)
    stuck = fault_from_body({"code": "ScopeLocked", "message": "a lock forbids it"})

    def refusing(clients: AzureClients, resource: Resource) -> AzureFault | None:
        return stuck if resource.name.endswith("-identity") else delete_resource(clients, resource)

    monkeypatch.setattr(ndctl.workflow.destroy, "delete_resource", refusing)
    result = destroy(plan_destroy(loaded, clients), clients)
    assert result.exit_code is ExitCode.DEPLOY_PARTIAL and not result.group_deleted
    assert [(one.name, fault) for one, fault in result.failed] == [(f"{loaded.inventory.cluster}-identity", stuck)]


def test_a_conflict_is_tried_again_after_the_others(
    loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(loaded, clients)
    tries: list[str] = []

    def busy_once(clients: AzureClients, resource: Resource) -> AzureFault | None:
        if resource.name.endswith("-nsg"):
            tries.append(resource.name)
            if len(tries) == 1:
                return fault_from_body({"code": "AnotherOperationInProgress", "message": "wait"})
        return delete_resource(clients, resource)

    monkeypatch.setattr(ndctl.workflow.destroy, "delete_resource", busy_once)
    assert destroy(plan_destroy(loaded, clients), clients).exit_code is ExitCode.OK
    assert len(tries) == 2


def test_protect_wins_and_points_at_its_line(region: Region, loaded: Loaded, clients: AzureClients) -> None:
    protected = load(region.change(loaded.path, protect=True))
    with pytest.raises(NdctlError) as caught:
        plan_destroy(protected, clients)
    assert caught.value.exit_code is ExitCode.PREFLIGHT
    assert caught.value.where is not None and caught.value.where.line is not None


def test_what_a_locked_scale_set_still_uses_is_told_as_its_consequence(
    region: Region, loaded: Loaded, clients: AzureClients
) -> None:
    deployed(loaded, clients)
    name = next(one.name for one in plan_destroy(loaded, clients).resources if "ScaleSets" in one.type)
    region.faults.add("delete-locked", name=name)
    result = destroy(plan_destroy(loaded, clients), clients)
    region.faults.clear()
    locked = {one.id for one, fault in result.failed if fault.innermost_code == "ScopeLocked"}
    assert len(locked) == 2, "the scale set and its block, which has the same name"
    assert locked == {one.id for one, _ in result.failed if one.id not in result.held_by}
    held = {one.type.rpartition("/")[2] for one, _ in result.failed if one.id in result.held_by}
    assert {"virtualNetworks", "networkSecurityGroups"} <= held
    assert {one.id for one in result.held_by.values()} <= locked
    lines = result_lines(result)
    assert sum("ScopeLocked" in line for line in lines) == 2 and sum("next:" in line for line in lines) == 2
    assert lines[-1] == f"  resource group {clients.resource_group} stays: not all of it is gone"
    told = result.as_dict()
    assert told["resource_group"]["exists"] and told["resource_group"]["stays"] == "not all of it is gone"
    for one in told["failed"]:
        if one["held_by"] is not None:
            kind, name = one["held_by"].split("/")[-2:]
            assert f"{kind}/{name}" in one["fault"]["next_step"] and one["fault"]["retryable"] is False
    deletes = Counter(one["path"].partition("?")[0] for one in region.requests() if one["method"] == "DELETE")
    tried = {one.id: deletes[one.id] for one, _ in result.failed}
    assert set(tried.values()) == {1}, "what a locked resource holds was tried again"
    assert destroy(plan_destroy(loaded, clients), clients).exit_code is ExitCode.OK


def test_what_came_into_the_group_meanwhile_keeps_it_and_that_is_said(
    loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(loaded, clients)
    plan = plan_destroy(loaded, clients)
    somebodys = Resource("/x", "Microsoft.Network/publicIPAddresses", "somebodys", "")
    now = replace(plan.group, ours=(), foreign=(somebodys,))
    monkeypatch.setattr(ndctl.workflow.destroy, "list_group", lambda *_: now)
    result = destroy(plan, clients)
    assert not result.group_deleted and result.exit_code is ExitCode.OK
    told = f"  resource group {clients.resource_group} stays: something was put into it meanwhile"
    assert told in result_lines(result)
