"""Planted faults of the control plane, as the official SDKs meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from ndctl.sim.faults import FaultBook
from tests.sim.arm_clients import Region, causes, faults, golden, golden_key, region

__all__ = ["faults", "region"]
KEY = golden_key()


@pytest.fixture
def foundation(region: Region) -> Callable[[str], str]:
    """Make a resource group with a deployed foundation."""

    def make(name: str) -> str:
        group = region.group(name)
        region.deploy(group, "foundation", golden("foundation", group), sshPublicKey=KEY)
        return group

    return make


def edited(stem: str, group: str, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """A rendered template with every compute resource changed."""
    told = golden(stem, group)
    for one in told["resources"]:
        change(one)
    return told


def machines(region: Region, group: str) -> list[Any]:
    return list(region.compute.virtual_machine_scale_set_vms.list(group, "swc-a-rack01", expand="instanceView"))


def test_no_capacity_fails_the_block_and_makes_no_machine(
    region: Region, faults: FaultBook, foundation: Callable[[str], str]
) -> None:
    group = foundation("rg-none")
    faults.add("allocation-failure", rack=1)
    with pytest.raises(HttpResponseError) as caught:
        region.deploy(group, "rack01", golden("rack01", group), sshPublicKey=KEY)
    assert causes(caught.value) == ["DeploymentFailed", "ResourceDeploymentFailure", "AllocationFailed"]
    (operation,) = region.deployments.deployment_operations.list(group, "rack01")
    assert operation.properties.status_code == "Conflict"
    assert operation.properties.status_message.error.code == "ResourceDeploymentFailure"
    block = region.compute.interconnect_blocks.get(group, "swc-a-rack01", expand="instanceView")
    assert block.properties.provisioning_state == "Failed"
    assert block.properties.instance_view.current_capacity == 0
    assert not list(region.compute.virtual_machine_scale_sets.list(group))

    # Other racks are not touched, and later there is capacity again.
    region.deploy(group, "rack02", golden("rack02", group), sshPublicKey=KEY)
    faults.clear()
    region.deploy(group, "rack01", golden("rack01", group), sshPublicKey=KEY)
    assert len(machines(region, group)) == 18


def test_half_a_rack_has_16_machines_and_says_why_2_are_missing(
    region: Region, faults: FaultBook, foundation: Callable[[str], str]
) -> None:
    group = foundation("rg-half")
    faults.add("half-allocated", rack=1)
    with pytest.raises(HttpResponseError) as caught:
        region.deploy(group, "rack01", golden("rack01", group), sshPublicKey=KEY)
    assert causes(caught.value) == ["DeploymentFailed", "ResourceDeploymentFailure", "AllocationFailed"]
    listed = machines(region, group)
    assert [one.properties.provisioning_state for one in listed].count("Succeeded") == 16
    failed = [one for one in listed if one.properties.provisioning_state == "Failed"]
    assert [one.properties.instance_view.statuses[0].code for one in failed] == [
        "ProvisioningState/failed/AllocationFailed"
    ] * 2
    cards = region.network.network_interfaces.list_virtual_machine_scale_set_network_interfaces(group, "swc-a-rack01")
    assert len(list(cards)) == 16
    assert (
        region.compute.virtual_machine_scale_sets.get(group, "swc-a-rack01").properties.provisioning_state == "Failed"
    )

    faults.clear()
    region.deploy(group, "rack01", golden("rack01", group), sshPublicKey=KEY)
    assert {one.properties.provisioning_state for one in machines(region, group)} == {"Succeeded"}


def test_quota_is_refused_at_validation_with_its_numbers(
    region: Region, faults: FaultBook, foundation: Callable[[str], str]
) -> None:
    group = foundation("rg-quota")
    faults.add("quota-exceeded", limit=2000)
    with pytest.raises(HttpResponseError) as caught:
        region.validate(group, golden("rack01", group), sshPublicKey=KEY)
    assert caught.value.status_code == 400
    assert causes(caught.value) == ["InvalidTemplateDeployment", "QuotaExceeded"]
    assert caught.value.error is not None
    message = caught.value.error.details[0].message
    assert "standardNDISRGB300V6Family" in message and "Current Limit: 2000" in message
    assert "Additional Required: 2304" in message
    row = next(one for one in region.compute.usage.list("swedencentral") if "gb300" in str(one.name.value).lower())
    assert row.limit == 2000


def test_a_policy_forbids_public_addresses_or_compute(region: Region, faults: FaultBook) -> None:
    group = region.group("rg-policy")
    faults.add("policy-denied")
    with pytest.raises(HttpResponseError) as caught:
        region.validate(group, golden("foundation", group), sshPublicKey=KEY)
    assert causes(caught.value) == ["InvalidTemplateDeployment", "RequestDisallowedByPolicy"]
    assert caught.value.error is not None and "deny-public-ip" in caught.value.error.details[0].message
    address: Any = {
        "location": "swedencentral",
        "sku": {"name": "Standard"},
        "properties": {"publicIPAllocationMethod": "Static"},
    }
    with pytest.raises(HttpResponseError) as caught:
        region.network.public_ip_addresses.begin_create_or_update(group, "direct", address)
    assert caught.value.status_code == 403


def test_throttling_has_retry_after_and_passes(region: Region, faults: FaultBook) -> None:
    faults.add("throttle", count=2, retry_after=0)
    seen: list[tuple[int, str | None]] = []

    def look(response: Any) -> None:
        seen.append((response.http_response.status_code, response.http_response.headers.get("Retry-After")))

    list(region.resources.resource_groups.list(raw_response_hook=look))
    history = [one for one in (region.path / "requests.jsonl").read_text().splitlines() if '"TooManyRequests"' in one]
    assert len(history) == 2 and seen[-1][0] == 200

    faults.clear()
    faults.add("throttle", count=1, retry_after=7)
    with pytest.raises(HttpResponseError) as caught:
        list(region.resources.resource_groups.list(retry_total=0))
    assert caught.value.status_code == 429
    assert caught.value.response is not None and caught.value.response.headers["Retry-After"] == "7"


def test_an_internal_error_passes(region: Region, faults: FaultBook) -> None:
    faults.add("error-500", count=1)
    with pytest.raises(HttpResponseError) as caught:
        list(region.resources.resource_groups.list(retry_total=0))
    assert caught.value.status_code == 500
    list(region.resources.resource_groups.list(retry_total=0))


def test_an_operation_that_never_ends_goes_on_running(
    region: Region, faults: FaultBook, foundation: Callable[[str], str]
) -> None:
    group = foundation("rg-endless")
    faults.add("lro-never-ends", rack=2)
    body: Any = {"properties": {"mode": "Incremental", "template": golden("rack02", group)}}
    body["properties"]["parameters"] = {"sshPublicKey": {"value": KEY}}
    poller = region.deployments.deployments.begin_create_or_update(group, "rack02", body)
    region.deploy(group, "rack01", golden("rack01", group), sshPublicKey=KEY)  # the other rack ends
    assert not poller.done() and poller.status() == "Running"
    faults.clear()
    assert poller.result().properties.provisioning_state == "Succeeded"


@pytest.mark.parametrize(
    ("zone", "code"), [("3", "SkuNotAvailable"), ("7", "InvalidAvailabilityZone")], ids=["no such size", "no such zone"]
)
def test_a_wrong_zone_is_refused_at_validation(region: Region, zone: str, code: str) -> None:
    group = region.group("rg-zone")
    told = edited("rack01", group, lambda one: one.update(zones=[zone]))
    with pytest.raises(HttpResponseError) as caught:
        region.validate(group, told, sshPublicKey=KEY)
    assert causes(caught.value) == ["InvalidTemplateDeployment", code]


def _in_scale_set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(one: dict[str, Any]) -> None:
        if one["type"].endswith("virtualMachineScaleSets"):
            *way, last = path.split(".")
            for key in way:
                one = one[key]
            one[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("properties.singlePlacementGroup", True, "Vertical Connect Feature is not available"),
        ("properties.virtualMachineProfile.osProfil", {}, "Could not find member 'osProfil'"),
        ("properties.virtualMachineProfile.osProfile.adminUsername", "root", "not allowed"),
        ("properties.virtualMachineProfile.osProfile.customData", "not base 64", "Base64"),
        ("properties.virtualMachineProfile.osProfile.linuxConfiguration.ssh", {}, "public keys"),
        ("properties.virtualMachineProfile.storageProfile.diskControllerType", "SCSI", "DiskControllerType"),
        ("properties.virtualMachineProfile.storageProfile.imageReference.version", "1.2.3", "not available"),
        ("properties.virtualMachineProfile.storageProfile.imageReference.sku", "2404", "CPU Architecture"),
        ("sku.name", "Standard_ND128isr_GB999_v9", "not valid"),
    ],
)
def test_scale_sets_that_azure_refuses(region: Region, path: str, value: Any, text: str) -> None:
    group = region.group("rg-wrong")
    with pytest.raises(HttpResponseError) as caught:
        region.validate(group, edited("rack01", group, _in_scale_set(path, value)), sshPublicKey=KEY)
    assert caught.value.error is not None and text in caught.value.error.details[0].message
