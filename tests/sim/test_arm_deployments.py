"""Deployments of the templates that ndctl renders: validated, predicted, run in order, and run again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError

from ndctl.sim.faults import FaultBook
from tests.sim.arm_clients import Region, causes, faults, golden, golden_key, identity, region, request, template

__all__ = ["faults", "region"]
KEY = golden_key()


def kinds(changes: Any) -> dict[str, str]:
    """Last two parts of each changed resource's id → its change type."""
    return {"/".join(one.resource_id.split("/")[-2:]): str(one.change_type.value) for one in changes}


def test_a_rendered_cluster_deploys_and_a_second_time_nothing_changes(region: Region) -> None:
    group = region.group("rg-whole")
    foundation, rack = golden("foundation", group), golden("rack01", group)
    assert region.validate(group, foundation, sshPublicKey=KEY).properties.provisioning_state == "Succeeded"
    predicted = kinds(region.what_if(group, foundation, sshPublicKey=KEY).properties.changes)
    assert set(predicted.values()) == {"Create"} and len(predicted) == len(foundation["resources"])

    region.deploy(group, "foundation", foundation, sshPublicKey=KEY)
    ended = region.deploy(group, "rack01", rack, sshPublicKey=KEY)
    assert ended.properties.provisioning_state == "Succeeded"
    assert {one.id.split("/")[-2] for one in ended.properties.output_resources} == {
        "interconnectBlocks",
        "virtualMachineScaleSets",
    }
    again = region.what_if(group, rack, sshPublicKey=KEY).properties.changes
    assert {str(one.change_type.value) for one in again} == {"NoChange", "Ignore"}
    assert kinds(again)["interconnectBlocks/swc-a-rack01"] == "NoChange"
    assert kinds(again)["virtualNetworks/swc-a-vnet"] == "Ignore"
    assert region.deploy(group, "rack01", rack, sshPublicKey=KEY).properties.provisioning_state == "Succeeded"
    assert len(list(region.compute.virtual_machine_scale_set_vms.list(group, "swc-a-rack01"))) == 18


def test_dependencies_are_begun_after_what_they_need(region: Region) -> None:
    group = region.group("rg-order")
    region.deploy(group, "foundation", golden("foundation", group), sshPublicKey=KEY)
    times = {
        one.properties.target_resource.resource_name: one.properties.timestamp
        for one in region.deployments.deployment_operations.list(group, "foundation")
    }
    assert times["swc-a-nat-ip"] < times["swc-a-nat"] < times["swc-a-vnet"] < times["swc-a-jump-nic"]
    assert times["swc-a-jump-nic"] < times["swc-a-jump"]


def test_what_if_says_which_property_changes(region: Region) -> None:
    group = region.group("rg-delta")
    region.deploy(group, "one", template(identity("a", tags={"owner": "x", "old": "1"})))
    changed = template(identity("a", tags={"owner": "y", "new": "2"}), identity("b"))
    changes = {one.resource_id.split("/")[-1]: one for one in region.what_if(group, changed).properties.changes}
    assert changes["b"].change_type == "Create" and changes["b"].after["name"] == "b"
    assert changes["a"].change_type == "Modify"
    delta = {one.path: (one.property_change_type, one.before, one.after) for one in changes["a"].delta}
    assert delta == {
        "tags.owner": ("Modify", "x", "y"),
        "tags.new": ("Create", None, "2"),
        "tags.old": ("Delete", "1", None),
    }
    assert changes["a"].before["tags"] == {"owner": "x", "old": "1"}
    # Nothing was changed by asking.
    assert region.resources.resources.get_by_id(changes["a"].resource_id, api_version="2024-11-30").tags["owner"] == "x"


def test_what_if_does_not_predict_what_is_known_at_run_time_only(region: Region) -> None:
    group = region.group("rg-unknown")
    told = identity("a", tags={"id": "[reference('somewhere').clientId]"})
    (change,) = region.what_if(group, template(told)).properties.changes
    assert change.change_type == "Unsupported" and "reference" in change.unsupported_reason


def test_what_if_of_a_refused_deployment_says_failed(region: Region, faults: FaultBook) -> None:
    group = region.group("rg-refused")
    faults.add("quota-exceeded", limit=2000)
    answer = region.what_if(group, golden("rack01", group), sshPublicKey=KEY)
    assert answer.status == "Failed" and answer.error.details[0].code == "QuotaExceeded"


def test_a_running_deployment_cannot_be_sent_again_and_can_be_cancelled(region: Region, faults: FaultBook) -> None:
    group = region.group("rg-active")
    region.deploy(group, "foundation", golden("foundation", group), sshPublicKey=KEY)
    faults.add("lro-never-ends", rack=1)
    body = request(golden("rack01", group), sshPublicKey=KEY)
    poller = region.deployments.deployments.begin_create_or_update(group, "rack01", body)
    with pytest.raises(ResourceExistsError) as caught:
        region.deployments.deployments.begin_create_or_update(group, "rack01", body)
    assert caught.value.error is not None and caught.value.error.code == "DeploymentActive"
    assert not poller.done()
    region.deployments.deployments.cancel(group, "rack01")
    with pytest.raises(HttpResponseError):
        poller.result()
    assert region.deployments.deployments.get(group, "rack01").properties.provisioning_state == "Canceled"


def test_an_unknown_deployment_is_not_found(region: Region) -> None:
    group = region.group("rg-none")
    with pytest.raises(ResourceNotFoundError) as caught:
        region.deployments.deployments.get(group, "nothing")
    assert caught.value.error is not None and caught.value.error.code == "DeploymentNotFound"
    assert not region.deployments.deployments.check_existence(group, "nothing")


def test_expressions_copies_conditions_and_names_as_dependencies(region: Region) -> None:
    group = region.group("rg-words")
    told = template(
        identity("[concat(variables('stem'), copyIndex(1))]", copy={"name": "many", "count": 3}),
        identity("[format('{0}-{1}', parameters('prefix'), resourceGroup().name)]", dependsOn=["id1"]),
        identity("never", condition="[equals(parameters('prefix'), 'no')]"),
        identity(
            "[toLower('LAST')]",
            tags={
                "id": "[resourceId('Microsoft.ManagedIdentity/userAssignedIdentities', 'id2')]",
                "literal": "[[not an expression]",
                "sub": "[subscription().subscriptionId]",
                "pick": "[if(true(), 'yes', parameters('absent'))]",
            },
            dependsOn=["[resourceId('Microsoft.ManagedIdentity/userAssignedIdentities', 'id2')]"],
        ),
        parameters={"prefix": {"type": "string", "defaultValue": "p", "minLength": 1}},
        variables={"stem": "id"},
    )
    region.deploy(group, "words", told)
    found = {one.name: one for one in region.resources.resources.list_by_resource_group(group)}
    assert set(found) == {"id1", "id2", "id3", "p-rg-words", "last"}
    assert found["last"].tags["literal"] == "[not an expression]"
    assert found["last"].tags["pick"] == "yes"
    assert found["last"].tags["id"].endswith("/userAssignedIdentities/id2")


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"resources": [identity("a", tags={"x": "[frobnicate('a')]"})]}, "InvalidTemplate", "frobnicate"),
        ({"resources": [identity("a", tags={"x": "[concat('a']"})]}, "InvalidTemplate", ""),
        ({"resources": [identity("a", tags={"x": "[parameters('nope')]"})]}, "InvalidTemplate", "nope"),
        ({"resources": [identity("a", dependsOn=["b"])]}, "InvalidTemplate", "not defined in the template"),
        (
            {"resources": [identity("a", dependsOn=["b"]), identity("b", dependsOn=["a"])]},
            "InvalidTemplate",
            "Circular",
        ),
        ({"resources": [identity("a"), identity("A")]}, "InvalidTemplate", "more than once"),
        ({"resources": [identity("a/b")]}, "InvalidTemplate", "segment lengths"),
        ({"resources": [identity("a", apiVersion="1999-01-01")]}, "NoRegisteredProviderFound", "2024-11-30"),
        ({"resources": [identity("a", type="Microsoft.Nothing/things")]}, "InvalidResourceNamespace", "Nothing"),
        ({"resources": [identity("a", type="Microsoft.Network/things")]}, "InvalidResourceType", "things"),
        ({"parameters": {"p": {"type": "string"}}}, "InvalidTemplate", "'p' is not provided"),
        ({"parameters": {"p": {"type": "int", "defaultValue": "x"}}}, "InvalidTemplate", "not of type"),
        ({"parametres": {}}, "InvalidTemplate", "parametres"),
        ({"contentVersion": None, "$schema": "http://example"}, "InvalidTemplate", "schema"),
        ({"resources": [identity("a", location="moon")]}, "InvalidTemplateDeployment", ""),
    ],
)
def test_templates_that_are_refused(region: Region, change: dict[str, Any], code: str, text: str) -> None:
    group = region.group("rg-refuse")
    told = {**template(), **change}
    for ask in (region.validate, lambda *a: region.deploy(a[0], "refused", a[1])):
        with pytest.raises(HttpResponseError) as caught:
            ask(group, told)
        assert caught.value.status_code == 400
        assert caught.value.error is not None and caught.value.error.code == code
        assert text in caught.value.error.message
    assert not region.deployments.deployments.check_existence(group, "refused")


def test_parameters_that_the_template_does_not_declare_are_refused(region: Region) -> None:
    group = region.group("rg-refuse")
    with pytest.raises(HttpResponseError, match="not valid; they are not present"):
        region.validate(group, template(), extra="x")


def test_a_part_that_the_provider_refuses_leaves_what_it_did_not_need(region: Region) -> None:
    group = region.group("rg-partly")
    subnet = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/none/providers"
    card = {
        "type": "Microsoft.Network/networkInterfaces",
        "apiVersion": "2025-07-01",
        "name": "card",
        "location": "swedencentral",
        "properties": {
            "ipConfigurations": [
                {
                    "name": "primary",
                    "properties": {"subnet": {"id": f"{subnet}/Microsoft.Network/virtualNetworks/v/subnets/s"}},
                }
            ]
        },
    }
    told = template(identity("a"), card, identity("after", dependsOn=["card"]))
    with pytest.raises(HttpResponseError) as caught:
        region.deploy(group, "partly", told)
    assert causes(caught.value) == ["DeploymentFailed", "InvalidResourceReference"]
    states = {
        one.properties.target_resource.resource_name: (one.properties.provisioning_state, one.properties.status_code)
        for one in region.deployments.deployment_operations.list(group, "partly")
    }
    assert states == {"a": ("Succeeded", "Created"), "card": ("Failed", "BadRequest")}
    assert region.deployments.deployments.get(group, "partly").properties.provisioning_state == "Failed"


def test_secure_parameters_are_not_shown_again(region: Region) -> None:
    group = region.group("rg-secure")
    told = template(
        identity("a"),
        parameters={"open": {"type": "string"}, "hidden": {"type": "securestring"}},
    )
    ended = region.deploy(group, "secure", told, open="seen", hidden="hush-hush")
    assert ended.properties.parameters["open"]["value"] == "seen"
    assert "hush-hush" not in json.dumps(ended.as_dict())
    assert "hush-hush" not in (region.path / "requests.jsonl").read_text()
