"""What the region offers and how every answer is framed: SKUs, usages, images, providers, versions, headers, pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.mgmt.resource.resources import ResourceManagementClient

from tests.sim.arm_clients import Region, identity, region, template

__all__ = ["region"]
EXAMPLES = Path(__file__).parents[3] / "shared" / "azure-examples"


def test_sku_of_a_rack_size_has_zones_and_a_restriction_and_no_gpu_count(region: Region) -> None:
    skus = {one.name: one for one in region.compute.resource_skus.list(filter="location eq 'swedencentral'")}
    sku = skus["Standard_ND128isr_GB300_v6"]
    told = {one.name: one.value for one in sku.capabilities}
    assert (told["vCPUs"], told["CpuArchitectureType"], told["DiskControllerTypes"]) == ("128", "Arm64", "NVMe")
    assert "GPUs" not in told and sku.family == "standardNDISRGB300V6Family"
    (restriction,) = sku.restrictions
    assert restriction.type == "Zone" and restriction.restriction_info.zones == ["3"]
    others = {one.name: one.value for one in skus["Standard_ND96isr_H200_v5"].capabilities}
    assert others["GPUs"] == "8"


def test_usages_name_the_family_and_all_cores(region: Region) -> None:
    rows = {one.name.value.lower(): one for one in region.compute.usage.list("simregion")}
    assert rows["cores"].current_value == 0 and rows["cores"].unit == "Count"
    assert rows["standardndisrgb300v6family"].limit >= 64 * 18 * 128


def test_images_are_found_step_by_step(region: Region) -> None:
    images = region.compute.virtual_machine_images
    where = ("swedencentral", "microsoft-dsvm", "ubuntu-hpc")
    assert "microsoft-dsvm" in {one.name for one in images.list_publishers("swedencentral")}
    assert "2404-gb" in {one.name for one in images.list_skus(*where)}
    newest = images.list(*where, "2404-gb", orderby="name desc", top=1)[0].name
    assert images.get(*where, "2404-gb", newest).properties.architecture == "Arm64"
    with pytest.raises(ResourceNotFoundError):
        images.get(*where, "2404-gb", "0.0.1")


def test_providers_know_their_types_and_versions(region: Region) -> None:
    provider = region.resources.providers.get("microsoft.network")
    assert provider.namespace == "Microsoft.Network" and provider.registration_state == "Registered"
    versions = {one.resource_type: one.api_versions for one in provider.resource_types}
    assert "2025-07-01" in versions["interconnectGroups"]


@pytest.mark.parametrize("version", ["2099-01-01", "latest", ""])
def test_unknown_api_versions_are_refused(region: Region, version: str) -> None:
    group = region.group("rg-version")
    with pytest.raises(HttpResponseError) as caught:
        region.compute.virtual_machine_scale_sets.get(group, "x", api_version=version)
    assert caught.value.status_code == 400
    other = ResourceManagementClient(
        region.credential, "00000000-0000-0000-0000-000000000000", base_url=region.endpoint,
        credential_scopes=[f"{region.endpoint}/.default"], connection_verify=region.ca, api_version="2001-01-01",
    )  # fmt: skip
    with pytest.raises(HttpResponseError, match="2001-01-01"):
        list(other.resource_groups.list())


def test_an_unknown_subscription_is_not_found(region: Region) -> None:
    other = ResourceManagementClient(
        region.credential, "12345678-0000-0000-0000-000000000000", base_url=region.endpoint,
        credential_scopes=[f"{region.endpoint}/.default"], connection_verify=region.ca,
    )  # fmt: skip
    with pytest.raises(ResourceNotFoundError) as caught:
        list(other.resource_groups.list())
    assert caught.value.error is not None and caught.value.error.code == "SubscriptionNotFound"


def test_every_answer_carries_its_ids_and_what_is_left(region: Region) -> None:
    seen: list[Any] = []
    list(region.resources.resource_groups.list(raw_response_hook=lambda r: seen.append(r.http_response.headers)))
    head = seen[0]
    assert head["x-ms-request-id"] and head["x-ms-correlation-request-id"] and head["x-ms-routing-request-id"]
    assert 0 <= int(head["x-ms-ratelimit-remaining-subscription-reads"]) <= 250
    list(region.compute.virtual_machine_scale_sets.list_all(raw_response_hook=lambda r: seen.append(r.http_response)))
    assert "Microsoft.Compute/" in seen[-1].headers["x-ms-ratelimit-remaining-resource"]


def test_long_operations_name_where_they_are_followed(region: Region) -> None:
    group = region.group("rg-headers")
    seen: list[Any] = []
    body: Any = {"properties": {"mode": "Incremental", "template": template(identity("a")), "parameters": {}}}
    region.deployments.deployments.begin_create_or_update(
        group, "d", body, raw_response_hook=lambda r: seen.append(r.http_response)
    ).result()
    first = seen[0]
    assert first.status_code == 201
    assert "/operationStatuses/" in first.headers["Azure-AsyncOperation"] and "Retry-After" in first.headers
    seen.clear()
    region.deployments.deployments.begin_create_or_update(
        group, "d", body, raw_response_hook=lambda r: seen.append(r.http_response)
    ).result()
    assert seen[0].status_code == 200
    seen.clear()
    region.deployments.deployments.begin_what_if(
        group, "d", body, raw_response_hook=lambda r: seen.append(r.http_response)
    ).result()
    assert seen[0].status_code == 202 and seen[0].headers["Location"].startswith(region.endpoint)


def test_long_lists_come_in_pages(region: Region) -> None:
    group = region.group("rg-pages")
    many = identity("[concat('id', copyIndex())]", copy={"name": "many", "count": 230})
    region.deploy(group, "many", template(many))
    pages = list(region.resources.resources.list_by_resource_group(group).by_page())
    assert [len(list(page)) for page in pages] == [100, 100, 30]


def test_resources_are_found_by_tag_and_type(region: Region) -> None:
    group = region.group("rg-tags")
    region.deploy(group, "tags", template(identity("a", tags={"Rack": "one"}), identity("b", tags={"rack": "two"})))

    def names(filter: str) -> list[str]:
        return [one.name for one in region.resources.resources.list_by_resource_group(group, filter=filter)]

    assert names("tagName eq 'rack' and tagValue eq 'two'") == ["b"]
    assert names("resourceType eq 'Microsoft.Compute/disks'") == []
    with pytest.raises(HttpResponseError, match="InvalidFilter"):
        names("colour eq 'red'")


def test_the_same_group_cannot_move(region: Region) -> None:
    region.group("rg-fixed", "swedencentral")
    with pytest.raises(HttpResponseError) as caught:
        region.group("rg-fixed", "eastus")
    assert caught.value.status_code == 409
    with pytest.raises(HttpResponseError) as caught:
        region.group("rg-moon", "moon")
    assert caught.value.error is not None and caught.value.error.code == "LocationNotAvailableForResourceGroup"


def _shape(value: Any) -> Any:
    """Names and kinds of a JSON value; lists by their first item."""
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    return type(value).__name__


def test_a_block_is_answered_in_the_shape_of_the_official_example(region: Region) -> None:
    file = EXAMPLES / "InterconnectBlocks_CreateOrUpdate_AnyZone.json"
    if not file.exists():
        pytest.skip("the official examples are not beside this checkout")
    example = json.loads(file.read_text())
    group = region.group("rg-example")
    region.network.interconnect_groups.create_or_update(group, "myInterconnectGroup", _group_body())
    asked = example["parameters"]["resource"]
    text = json.dumps(asked).replace("westus", "swedencentral").replace("myResourceGroup", group)
    text = text.replace("{subscription-id}", "00000000-0000-0000-0000-000000000000")
    seen: list[Any] = []
    region.compute.interconnect_blocks.begin_create_or_update(
        group, "myInterconnectBlock", json.loads(text), raw_response_hook=lambda r: seen.append(r.http_response)
    ).result()
    expected = example["responses"]["201"]
    assert seen[0].status_code == 201
    assert {name.lower() for name in expected["headers"]} <= {name.lower() for name in seen[0].headers}
    answered = seen[0].json()
    assert answered["properties"].pop("virtualMachinesAssociated") == []
    assert _shape(answered) == _shape(expected["body"])
    assert answered["properties"]["provisioningState"] == expected["body"]["properties"]["provisioningState"]


def test_a_scale_set_with_a_block_is_answered_in_the_shape_of_the_official_example(region: Region) -> None:
    file = EXAMPLES / "VirtualMachineScaleSet_Create_WithInterconnectBlock.json"
    if not file.exists():
        pytest.skip("the official examples are not beside this checkout")
    example = json.loads(file.read_text())
    group = region.group("rg-example-set")
    region.network.interconnect_groups.create_or_update(group, "myInterconnectGroup", _group_body())
    block: Any = {
        "location": "swedencentral", "zones": ["1"], "sku": {"name": "Standard_ND128isr_GB300_v6", "capacity": 18},
        "properties": {"interconnectGroup": {"id": _id(group, "Network/interconnectGroups/myInterconnectGroup")}},
    }  # fmt: skip
    region.compute.interconnect_blocks.begin_create_or_update(group, "myInterconnectBlock", block).result()
    network: Any = {
        "location": "swedencentral",
        "properties": {
            "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
            "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24"}}],
        },
    }
    region.network.virtual_networks.begin_create_or_update(group, "v", network).result()
    (subgroup,) = region.network.subgroups.list(group, "myInterconnectGroup")
    text = json.dumps(example["parameters"]["parameters"]).replace("westus", "swedencentral")
    for old, new in {
        "{subscription-id}": "00000000-0000-0000-0000-000000000000",
        "myResourceGroup": group,
        "{existing-virtual-network-name}": "v",
        "{existing-subnet-name}": "s",
        "subgroup0": str(subgroup.name),
        "{your-username}": "azureuser",
    }.items():
        text = text.replace(old, new)
    asked = json.loads(text)
    # The example signs in with a password that it leaves out.
    asked["properties"]["virtualMachineProfile"]["osProfile"]["adminPassword"] = "Nobody-reads-1"
    asked["properties"]["singlePlacementGroup"] = False
    seen: list[Any] = []
    region.compute.virtual_machine_scale_sets.begin_create_or_update(
        group, "myVirtualMachineScaleSet", asked, raw_response_hook=lambda r: seen.append(r.http_response)
    ).result()
    answered, expected = seen[0].json(), example["responses"]["201"]["body"]
    assert seen[0].status_code == 201
    assert answered["properties"].pop("timeCreated")
    assert _shape(answered) == _shape(expected)


def _group_body() -> Any:
    profile = {"vmSize": "Standard_ND128isr_GB300_v6", "scope": "VerticalConnect", "size": 18}
    return {"location": "swedencentral", "properties": {"scope": "InfiniBand", "subgroupProfile": profile}}


def _id(group: str, path: str) -> str:
    return f"/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/{group}/providers/Microsoft.{path}"
