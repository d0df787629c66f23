"""Nothing that costs money is left behind, and what would not go is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import yaml

from ndctl.azure.clients import connect
from ndctl.azure.resources import delete_resource
from ndctl.inventory.loader import load
from ndctl.model.errors import ExitCode
from ndctl.workflow.deploy import deploy
from ndctl.workflow.destroy import destroy, plan_destroy
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy

if TYPE_CHECKING:
    from conftest import Region


def deployed(region: Region, **changes: Any) -> Any:
    loaded = region.loaded(**changes)
    clients = connect(loaded)
    rendered = render_to_deploy(loaded)
    deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients)
    return loaded, clients


def kinds(region: Region, group: str) -> set[str]:
    return {one.split("/providers/")[1].split("/")[1] for one in region.billable(group)}


def test_disks_blocks_addresses_and_gateways_go_too(region: Region) -> None:
    loaded, clients = deployed(region, racks=2)
    group = clients.resource_group
    wanted = {"virtualMachineScaleSets", "interconnectBlocks", "virtualMachines", "disks", "publicIPAddresses"}
    assert wanted <= kinds(region, group), "nothing to leave behind: this test would prove nothing"
    result = destroy(plan_destroy(loaded, clients), clients)
    assert result.exit_code is ExitCode.OK and region.billable(group) == []
    clients.close()


def test_nothing_is_left_of_half_a_rack_or_of_one_that_failed(region: Region) -> None:
    region.faults.add("half-allocated", rack=1, count=7)
    region.faults.add("allocation-failure", rack=2)
    loaded, clients = deployed(region, racks=2)
    assert destroy(plan_destroy(loaded, clients), clients).exit_code is ExitCode.OK
    assert region.billable(clients.resource_group) == []
    clients.close()


def test_racks_beyond_the_inventory_go_as_well(region: Region) -> None:
    loaded, clients = deployed(region, racks=2)
    fewer = load(region.change(loaded.path, racks=1))
    assert destroy(plan_destroy(fewer, clients), clients).exit_code is ExitCode.OK
    assert region.billable(clients.resource_group) == []
    clients.close()


def test_a_locked_resource_is_named_and_the_others_go(region: Region, ndctl: Callable[..., Any]) -> None:
    inventory = region.inventory()
    assert ndctl("deploy", inventory, "--yes").code == 0
    loaded = load(inventory)
    region.faults.add("delete-locked", name="-nat-ip")
    said = ndctl("destroy", inventory, "--yes")
    assert said.code == 6
    assert f"publicIPAddresses/{loaded.inventory.cluster}-nat-ip  not deleted: ScopeLocked" in said.out
    assert kinds(region, str(loaded.inventory.resource_group)) == {"publicIPAddresses"}
    region.faults.clear()
    assert ndctl("destroy", inventory, "--yes").code == 0
    assert region.billable(str(loaded.inventory.resource_group)) == []


def test_a_delete_without_an_end_ends_at_its_deadline_as_a_fault(region: Region) -> None:
    loaded, clients = deployed(region)
    scale_set = plan_destroy(loaded, clients).resources[0]
    region.faults.add("delete-never-ends", name=scale_set.name)
    fault = delete_resource(clients, scale_set, deadline_s=1.0)
    assert fault is not None and fault.innermost_code == "DeadlinePassed" and fault.retryable
    assert f"deleting {scale_set.name}: no end after" in fault.innermost_message
    region.faults.clear()
    assert destroy(plan_destroy(loaded, clients), clients).exit_code is ExitCode.OK
    assert region.billable(clients.resource_group) == []
    clients.close()


def test_bad_answers_in_the_middle_are_ridden_out(region: Region) -> None:
    for kind, parameters in (
        ("poll-error", {"count": 4, "status": 503}),
        ("connection-reset", {"count": 2}),
        ("token-expired", {}),
        ("throttle", {"count": 3, "retry_after": 1, "of": "deletes"}),
    ):
        loaded, clients = deployed(region)
        plan = plan_destroy(loaded, clients)
        region.faults.add(kind, **parameters)
        result = destroy(plan, clients)
        assert result.exit_code is ExitCode.OK, (kind, [(one.name, fault.summary) for one, fault in result.failed])
        assert region.billable(clients.resource_group) == []
        region.faults.clear()
        clients.close()


def test_where_there_is_no_group_that_is_said_and_nothing_is_written(region: Region, ndctl: Callable[..., Any]) -> None:
    inventory = region.inventory()
    group, asked = yaml.safe_load(inventory.read_text())["resource_group"], len(region.requests())
    said = ndctl("destroy", inventory, "--yes")
    assert said.code == 0 and f"resource group {group} does not exist" in said.out and "not tagged" not in said.err
    told = json.loads(ndctl("destroy", inventory, "--yes", "-o", "json").out)
    assert told["resource_group"]["exists"] is False and told["resource_group"]["stays"] is None
    sent = [one for one in region.requests()[asked:] if one["method"] not in ("GET", "HEAD")]
    assert [one for one in sent if "/subscriptions/" in one["path"]] == []


def test_a_locked_group_keeps_everything_and_names_it(region: Region, ndctl: Callable[..., Any]) -> None:
    inventory = region.inventory()
    assert ndctl("deploy", inventory, "--yes").code == 0
    group = yaml.safe_load(inventory.read_text())["resource_group"]
    before = region.billable(group)
    region.faults.add("delete-locked", name=group)
    said = ndctl("destroy", inventory, "--yes")
    assert said.code == 5 and f"resource group {group} stays: not all of it is gone" in said.out
    assert region.billable(group) == before
    region.faults.clear()
    assert ndctl("destroy", inventory, "--yes").code == 0 and region.billable(group) == []
