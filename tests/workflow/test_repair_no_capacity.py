"""`repair --action replace` where Azure has no capacity for the new VM: said, charged rightly, and gone on with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ndctl.azure.clients import AzureClients, connect
from ndctl.inventory.loader import Loaded
from ndctl.model.errors import ExitCode
from ndctl.workflow.deploy import deploy
from ndctl.workflow.nodes import discover, learn_host_keys
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy
from ndctl.workflow.repair import repair
from ndctl.workflow.repair_plan import plan_repair
from ndctl.workflow.repair_refusals import RepairRequest
from ndctl.workflow.repair_state import Phase, RepairAction

if TYPE_CHECKING:
    from conftest import Region

NODE = "rack01-n02"


@pytest.fixture
def loaded(region: Region) -> Loaded:
    return region.loaded(vms_per_rack=3)


@pytest.fixture
def clients(loaded: Loaded) -> Iterator[AzureClients]:
    made = connect(loaded)
    rendered = render_to_deploy(loaded)
    deploy(loaded, rendered, make_plan(loaded, rendered, made), made)
    learn_host_keys(loaded, discover(loaded, made), clients=made)
    yield made
    made.close()


def charged(region: Region, loaded: Loaded) -> list[int]:
    """VMs of the cluster's scale set that are charged for now."""
    told = json.loads(region.directory.file("ledger.json").read_text())
    mine = set(region.billable(loaded.inventory.resource_group or ""))
    return [one["count"] for one in told if one["id"] in mine and "ScaleSets" in one["id"] and one["until"] is None]


@pytest.mark.parametrize(("kind", "more"), [("allocation-failure", {}), ("half-allocated", {"count": 2})])
def test_no_capacity_for_the_new_vm(
    region: Region, loaded: Loaded, clients: AzureClients, kind: str, more: dict[str, int]
) -> None:
    before = {one.name: one.vm_id for one in discover(loaded, clients).nodes}
    request = RepairRequest(loaded.path, (NODE,), RepairAction.REPLACE)
    region.faults.add(kind, rack=1, **more)
    short = repair(plan_repair(loaded, request, clients), clients)
    (end,) = short.ends
    assert end.entry is not None and end.entry.phase is Phase.DELETED and not end.entry.ended
    assert short.exit_code is ExitCode.DEPLOY_FAILED and short.runs == ()
    assert end.error is not None and "AllocationFailed" in end.error.message, end.error
    assert charged(region, loaded) == [2]

    region.faults.clear()
    gone_on = repair(plan_repair(loaded, request, clients), clients)
    (end,) = gone_on.ends
    assert end.entry is not None and end.entry.phase is Phase.BACK and end.entry.validated
    after = {one.name: one.vm_id for one in discover(loaded, clients).nodes}
    assert set(after) == set(before) and [name for name in before if after[name] != before[name]] == [NODE]
    assert charged(region, loaded) == [3] and gone_on.exit_code is ExitCode.OK
