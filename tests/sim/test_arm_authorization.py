"""The region's permissions: which action a request needs, what a role allows, and Azure's words when it does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest

from ndctl.sim.arm.action_names import needed
from ndctl.sim.arm.http import Request
from ndctl.sim.arm.settings import CLIENT, OBJECT
from ndctl.sim.faults import FaultBook
from tests.sim.arm_clients import SUBSCRIPTION, Region, faults, golden, golden_key, region

__all__ = ["faults", "region"]
SUB = f"/subscriptions/{SUBSCRIPTION}"
RG = f"{SUB}/resourceGroups/rg"
COMPUTE = f"{RG}/providers/Microsoft.Compute"


def action(method: str, path: str) -> str:
    found = needed(Request(method, path, tuple(part for part in path.split("/") if part), {}))
    return found.action if found else ""


# Names: learn.microsoft.com, "Azure permissions for Compute / Networking / Management and governance", read 2026-12.
@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/subscriptions", ""),
        ("GET", SUB, "Microsoft.Resources/subscriptions/read"),
        ("GET", f"{SUB}/resourcegroups", "Microsoft.Resources/subscriptions/resourceGroups/read"),
        ("PUT", f"{SUB}/resourcegroups/rg", "Microsoft.Resources/subscriptions/resourceGroups/write"),
        ("DELETE", f"{SUB}/resourcegroups/rg", "Microsoft.Resources/subscriptions/resourceGroups/delete"),
        ("GET", f"{RG}/resources", "Microsoft.Resources/subscriptions/resourceGroups/resources/read"),
        ("GET", f"{SUB}/operationresults/1", "Microsoft.Resources/subscriptions/operationresults/read"),
        ("GET", f"{SUB}/providers/Microsoft.Compute", "Microsoft.Resources/subscriptions/providers/read"),
        ("POST", f"{SUB}/providers/Microsoft.Compute/register", "Microsoft.Compute/register/action"),
        ("GET", f"{SUB}/providers/Microsoft.Compute/skus", "Microsoft.Compute/skus/read"),
        ("GET", f"{SUB}/providers/Microsoft.Compute/locations/x/usages", "Microsoft.Compute/locations/usages/read"),
        (
            "GET",
            f"{SUB}/providers/Microsoft.Compute/locations/x/operations/1",
            "Microsoft.Compute/locations/operations/read",
        ),
        (
            "GET",
            f"{SUB}/providers/Microsoft.Network/locations/x/operationResults/1",
            "Microsoft.Network/locations/operationResults/read",
        ),
        ("PATCH", f"{RG}/providers/Microsoft.Resources/tags/default", "Microsoft.Resources/tags/write"),
        ("PUT", f"{RG}/providers/Microsoft.Resources/deployments/d", "Microsoft.Resources/deployments/write"),
        (
            "POST",
            f"{RG}/providers/Microsoft.Resources/deployments/d/whatIf",
            "Microsoft.Resources/deployments/whatIf/action",
        ),
        ("GET", f"{RG}/deployments/d/operations", "Microsoft.Resources/deployments/operations/read"),
        (
            "GET",
            f"{COMPUTE}/virtualMachineScaleSets/a/virtualMachines",
            "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
        ),
        (
            "POST",
            f"{COMPUTE}/virtualmachinescalesets/a/virtualmachines/3/runcommand",
            "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/runCommand/action",
        ),
        ("DELETE", f"{COMPUTE}/interconnectBlocks/b", "Microsoft.Compute/interconnectBlocks/delete"),
        (
            "POST",
            f"{RG}/providers/Microsoft.Network/interconnectGroups/g/nodeAvailability",
            "Microsoft.Network/interconnectGroups/nodeAvailability/action",
        ),
        ("GET", f"{RG}/providers/Microsoft.Authorization/permissions", "Microsoft.Authorization/permissions/read"),
    ],
)
def test_the_action_of_a_request(method: str, path: str, wanted: str) -> None:
    assert action(method, path) == wanted


@pytest.fixture
def role(region: Region) -> Iterator[Callable[..., None]]:
    path = region.path / "role.json"

    def put(*actions: str, not_actions: tuple[str, ...] = (), **more: Any) -> None:
        fresh = path.with_name("role.new")
        fresh.write_text(json.dumps({"Name": "r", "Actions": actions, "NotActions": not_actions, **more}))
        fresh.replace(path)

    yield put
    path.unlink(missing_ok=True)


def listed(region: Region, scope: str) -> list[dict[str, Any]]:
    url = f"{scope}/providers/Microsoft.Authorization/permissions?api-version=2022-04-01"
    answer = region.resources.send_request(HttpRequest("GET", url))
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json()["value"]
    return found


def test_without_a_role_file_the_identity_is_owner(region: Region, faults: FaultBook) -> None:
    group = region.group("rg-owner")
    owner = {"actions": ["*"], "notActions": [], "dataActions": [], "notDataActions": []}
    assert listed(region, SUB) == listed(region, f"{SUB}/resourceGroups/{group}") == [owner]
    faults.add("permission-denied", action="Microsoft.Compute/disks/write")
    assert listed(region, SUB)[0]["notActions"] == ["Microsoft.Compute/disks/write"]


def test_a_refusal_names_action_scope_and_identity_as_azure_does(region: Region, role: Callable[..., None]) -> None:
    role("Microsoft.Authorization/permissions/read", "*/read", not_actions=("Microsoft.Compute/*",))
    list(region.resources.resource_groups.list())
    with pytest.raises(HttpResponseError) as caught:
        list(region.compute.virtual_machine_scale_sets.list("rg-none"))
    assert caught.value.status_code == 403 and caught.value.error is not None
    assert caught.value.error.code == "AuthorizationFailed"
    scope = f"{SUB}/resourceGroups/rg-none/providers/Microsoft.Compute/virtualMachineScaleSets"
    assert caught.value.error.message == (
        f"The client '{CLIENT}' with object id '{OBJECT}' does not have authorization to perform action "
        f"'Microsoft.Compute/virtualMachineScaleSets/read' over scope '{scope}' or the scope is invalid. If access was "
        "recently granted, please refresh your credentials."
    )


def test_a_template_is_refused_for_what_it_writes_and_what_it_joins(region: Region, role: Callable[..., None]) -> None:
    group = region.group("rg-template")
    foundation = golden("foundation", group)
    role("*", not_actions=("Microsoft.Network/natGateways/write",))
    with pytest.raises(HttpResponseError) as caught:
        region.deploy(group, "d", foundation, sshPublicKey=golden_key())
    assert caught.value.status_code == 403 and caught.value.error is not None
    assert caught.value.error.code == "InvalidTemplateDeployment"
    assert "of type 'Microsoft.Network/natGateways'. The client" in str(caught.value.error.message)
    role("*", not_actions=("Microsoft.Network/natGateways/join/action",))
    with pytest.raises(HttpResponseError) as linked:
        region.deploy(group, "d", foundation, sshPublicKey=golden_key())
    assert linked.value.error is not None and linked.value.error.code == "LinkedAuthorizationFailed"
    assert "perform action(s) 'Microsoft.Network/natGateways/join/action'" in str(linked.value.error.message)


def test_both_spellings_of_a_role_and_several_of_them(region: Region) -> None:
    path = region.path / "role.json"
    try:
        path.write_text(json.dumps([{"roleName": "a", "actions": ["*/read"]}, {"Name": "b", "Actions": ["x/*"]}]))
        assert [one["actions"] for one in listed(region, SUB)] == [["*/read"], ["x/*"]]
    finally:
        path.unlink()
