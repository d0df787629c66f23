"""What the rendered deployments say, and what is refused before anything is written."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from ndctl.inventory.schema import Inventory
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.profiles.loader import load as load_profile
from ndctl.render import render
from ndctl.render.engine import environment
from ndctl.render.limits import hold_custom_data, hold_limits
from ndctl.render.rendered import Rendered
from tests.render.conftest import EXISTING_SUBNET, PUBLIC_KEY, SUBSCRIPTION, LoadedInventory, loaded


def of_type(rendered: Rendered, kind: str) -> list[dict[str, Any]]:
    return [r for one in rendered.deployments for r in one.template["resources"] if r["type"].endswith("/" + kind)]


def refusal(**changes: Any) -> NdctlError:
    with pytest.raises(NdctlError) as caught:
        render(loaded(**changes))
    assert caught.value.exit_code == ExitCode.USAGE
    return caught.value


def strings(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [text for key, value in node.items() for text in [*strings(key), *strings(value)]]
    if isinstance(node, list):
        return [text for item in node for text in strings(item)]
    return [node] if isinstance(node, str) else []


def test_same_input_same_bytes_and_order_of_ranges_and_tags_is_no_difference() -> None:
    one = render(loaded(tags={"a": "1", "b": "2"}))
    other = render(
        loaded(
            tags={"b": "2", "a": "1"},
            network={
                "create": "10.40.0.0/16",
                "admin_from": ["198.51.100.7/32", "203.0.113.0/24", "198.51.100.7/32"],
            },
        )
    )
    assert one.files() == other.files()


def test_one_deployment_per_rack_after_the_foundation(two_racks: Rendered) -> None:
    assert [one.name for one in two_racks.deployments] == ["swc-a-foundation", "swc-a-rack01", "swc-a-rack02"]
    assert [one.rack for one in two_racks.deployments] == ["", "rack01", "rack02"]
    assert list(two_racks.files())[:3] == ["foundation.json", "foundation.parameters.json", "rack01.json"]


def test_a_rack_is_a_block_and_the_scale_set_that_waits_for_it(two_racks: Rendered) -> None:
    block, scale_set = two_racks.racks[1].template["resources"]
    prefix = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg-swc-a/providers"
    block_id = f"{prefix}/Microsoft.Compute/interconnectBlocks/swc-a-rack02"
    group_id = f"{prefix}/Microsoft.Network/interconnectGroups/swc-a-group"
    assert block["sku"] == {"name": "Standard_ND128isr_GB300_v6", "capacity": 18}
    assert block["properties"]["interconnectGroup"]["id"] == group_id
    assert scale_set["dependsOn"] == [block_id]
    machine = scale_set["properties"]["virtualMachineProfile"]
    assert machine["interconnectBlockProfile"]["interconnectBlock"]["id"] == block_id
    assert machine["networkProfile"]["interconnectGroupProfile"]["interconnectGroup"]["id"] == group_id
    properties = scale_set["properties"]
    assert (properties["orchestrationMode"], properties["overprovision"]) == ("Uniform", False)
    assert (properties["singlePlacementGroup"], properties["platformFaultDomainCount"]) == (False, 1)
    assert properties["upgradePolicy"] == {"mode": "Manual"}
    assert "automaticRepairsPolicy" not in properties
    assert scale_set["zones"] == block["zones"] == ["1"]
    assert machine["osProfile"]["linuxConfiguration"]["disablePasswordAuthentication"] is True
    assert "adminPassword" not in json.dumps(scale_set)
    assert machine["storageProfile"]["diskControllerType"] == "NVMe"
    assert machine["storageProfile"]["osDisk"]["diffDiskSettings"]["placement"] == "NvmeDisk"
    assert scale_set["tags"] == {
        "managed-by": "ndctl",
        "ndctl-cluster": "swc-a",
        "ndctl-rack": "rack02",
        "owner": "fabric-team",
    }
    assert base64.b64decode(machine["osProfile"]["customData"]).decode() == two_racks.cloud_init


def test_profile_values_can_be_overridden_one_by_one() -> None:
    made = render(
        loaded(placement={"single_placement_group": True, "platform_fault_domain_count": 5, "os_disk": "premium"})
    )
    properties = of_type(made, "virtualMachineScaleSets")[0]["properties"]
    assert (properties["singlePlacementGroup"], properties["platformFaultDomainCount"]) == (True, 5)
    os_disk = properties["virtualMachineProfile"]["storageProfile"]["osDisk"]
    assert os_disk["managedDisk"] == {"storageAccountType": "Premium_LRS"} and "diffDiskSettings" not in os_disk
    assert len(of_type(made, "interconnectBlocks")) == 2


def test_the_group_knows_the_size_of_the_hardware_not_of_the_wish() -> None:
    made = render(loaded(vms_per_rack=16))
    (group,) = of_type(made, "interconnectGroups")
    assert group["properties"] == {
        "scope": "InfiniBand",
        "subgroupProfile": {"vmSize": "Standard_ND128isr_GB300_v6", "scope": "VerticalConnect", "size": 18},
    }
    assert {one["sku"]["capacity"] for one in of_type(made, "interconnectBlocks")} == {16}
    assert {one["sku"]["capacity"] for one in of_type(made, "virtualMachineScaleSets")} == {16}


def test_without_blocks_nothing_speaks_of_interconnects() -> None:
    made = render(loaded(placement={"kind": "none"}))
    assert "nterconnect" not in json.dumps([one.template for one in made.deployments])


def test_the_only_expression_is_the_key_parameter(case: tuple[str, Rendered]) -> None:
    for one in case[1].deployments:
        texts = strings(one.template["resources"])
        assert {t for t in texts if t.startswith("[") and not t.startswith("[[")} <= {"[parameters('sshPublicKey')]"}
        declared = set(one.template["parameters"])
        assert declared == ({"sshPublicKey"} if "[parameters('sshPublicKey')]" in texts else set())


def test_every_dependency_and_reference_is_rendered_or_given(case: tuple[str, Rendered]) -> None:
    """Ids are literals, so a misspelt one would only be found by Azure."""
    made: set[str] = set()
    for one in case[1].deployments:
        inside = {
            f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg-swc-a/providers/{r['type']}/{r['name']}"
            for r in one.template["resources"]
        }
        made |= inside
        for resource in one.template["resources"]:
            assert set(resource.get("dependsOn", [])) <= inside
            made |= {
                f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg-swc-a/providers/{resource['type']}/"
                f"{resource['name']}/subnets/{subnet['name']}"
                for subnet in resource.get("properties", {}).get("subnets", [])
            }
        ids = {t for t in strings(one.template["resources"]) if t.startswith("/subscriptions/")}
        given = {t for t in ids if t == EXISTING_SUBNET or "/images/" in t}
        assert ids - given <= made


def test_values_that_look_like_expressions_stay_text() -> None:
    made = render(loaded(tags={"a": "[reference('x')]", "b": "[half", "c": "[[x]"}))
    tags = made.foundation.template["resources"][0]["tags"]
    assert (tags["a"], tags["b"], tags["c"]) == ("[[reference('x')]", "[half", "[[[x]")


def test_hostile_text_cannot_leave_its_string() -> None:
    evil = '"},{"type":"Microsoft.Evil/x'
    made = render(loaded(tags={"a": evil, 'k"\n': "</script>\u2028é"}))
    tags = made.racks[0].template["resources"][0]["tags"]
    assert tags["a"] == evil and tags['k"\n'] == "</script>\u2028é"
    assert len(made.racks[0].template["resources"]) == 2


def rules(rendered: Rendered) -> dict[str, dict[str, Any]]:
    (group,) = of_type(rendered, "networkSecurityGroups")
    return {rule["name"]: rule["properties"] for rule in group["properties"]["securityRules"]}


def test_ssh_comes_from_admins_to_the_jump_host_and_from_there_to_the_racks(two_racks: Rendered) -> None:
    (network,) = of_type(two_racks, "virtualNetworks")
    subnets = {one["name"]: one["properties"] for one in network["properties"]["subnets"]}
    racks, jump = subnets["racks"]["addressPrefix"], subnets["jump"]["addressPrefix"]
    assert not ipaddress.ip_network(racks).overlaps(ipaddress.ip_network(jump))
    found = rules(two_racks)
    allowed = {name: rule for name, rule in found.items() if rule["access"] == "Allow"}
    from_outside = {
        name: rule for name, rule in allowed.items() if rule.get("sourceAddressPrefix") not in (racks, jump)
    }
    assert list(from_outside) == ["allow-ssh-from-admin"]
    admin = from_outside["allow-ssh-from-admin"]
    assert admin["sourceAddressPrefixes"] == ["198.51.100.7/32", "203.0.113.0/24"]
    assert (admin["destinationAddressPrefix"], admin["destinationPortRange"]) == (jump, "22")
    assert found["allow-ssh-from-jump"]["destinationPortRange"] == "22"
    assert found["allow-ssh-from-jump"]["sourceAddressPrefix"] == jump
    assert found["allow-imex"]["destinationPortRanges"] == ["50000", "50005"]
    for name in ("allow-imex", "allow-rack-traffic"):
        assert (found[name]["sourceAddressPrefix"], found[name]["destinationAddressPrefix"]) == (racks, racks)
    assert found["deny-internet"]["sourceAddressPrefix"] == "Internet"
    # No rule of Azure's own (65000: all of the virtual network and its peers) is ever reached.
    last = max(found.values(), key=lambda rule: rule["priority"])
    assert (last["access"], last["sourceAddressPrefix"], last["priority"]) == ("Deny", "*", 4096)
    assert all("networkSecurityGroup" in one and one["defaultOutboundAccess"] is False for one in subnets.values())
    assert "natGateway" in subnets["racks"]


def test_nothing_but_nat_and_jump_has_a_public_address(two_racks: Rendered) -> None:
    assert sorted(one["name"] for one in of_type(two_racks, "publicIPAddresses")) == ["swc-a-jump-ip", "swc-a-nat-ip"]
    assert "publicIP" not in json.dumps([one.template for one in two_racks.racks])


def test_own_jump_hosts_reach_the_racks_themselves_and_no_jump_is_made() -> None:
    made = render(loaded(ssh={"public_key": PUBLIC_KEY, "jump": ["ops@bastion.example"], "port": 2222}))
    assert not of_type(made, "virtualMachines")
    found = rules(made)
    own = found["allow-ssh-from-own-jump-hosts"]
    assert (own["destinationAddressPrefix"], own["destinationPortRange"]) == ("10.40.0.0/17", "2222")
    assert "allow-ssh-from-jump" not in found and "allow-ssh-from-admin" not in found


def test_own_and_created_jump_hosts_side_by_side() -> None:
    found = rules(render(loaded(ssh={"public_key": PUBLIC_KEY, "jump": ["created", "bastion.example"]})))
    assert found["allow-ssh-from-admin"]["destinationAddressPrefix"] == "10.40.255.240/28"
    assert found["allow-ssh-from-own-jump-hosts"]["destinationAddressPrefix"] == "10.40.0.0/17"


def test_another_ssh_port_is_where_sshd_listens() -> None:
    made = yaml.safe_load(render(loaded(ssh={"public_key": PUBLIC_KEY, "port": 2222})).cloud_init)
    (entry,) = [one for one in made["write_files"] if "sshd_config.d" in one["path"]]
    assert entry["content"] == "Port 2222\n"
    assert ["sh", "-c", "systemctl restart ssh.socket || systemctl restart ssh.service"] in made["runcmd"]
    assert "sshd_config.d" not in render(loaded()).cloud_init


def test_a_new_network_without_any_jump_host_gets_one() -> None:
    assert of_type(render(loaded(ssh={"public_key": PUBLIC_KEY})), "virtualMachines")


def test_without_admin_ranges_nobody_comes_in() -> None:
    made = render(loaded(network={"create": "10.40.0.0/16"}))
    assert "allow-ssh-from-admin" not in rules(made)


def test_an_existing_subnet_is_used_and_not_changed() -> None:
    made = render(loaded(network={"subnet": EXISTING_SUBNET}, ssh={"public_key": PUBLIC_KEY}))
    kinds = {resource["type"].split("/")[1] for resource in made.foundation.template["resources"]}
    assert kinds == {"userAssignedIdentities", "interconnectGroups"}
    text = json.dumps(made.racks[0].template)
    assert EXISTING_SUBNET in text and "swc-a-vnet" not in text


def test_a_jump_host_on_an_existing_subnet_brings_its_own_guard() -> None:
    made = render(loaded(network={"subnet": EXISTING_SUBNET, "admin_from": ["203.0.113.0/24"]}))
    (nic,) = of_type(made, "networkInterfaces")
    assert nic["properties"]["networkSecurityGroup"]["id"].endswith("/swc-a-nsg")
    assert not of_type(made, "virtualNetworks") and not of_type(made, "natGateways")
    assert set(rules(made)) == {"allow-ssh-from-admin", "deny-internet", "deny-the-rest"}


def test_the_key_comes_from_text_or_file_and_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "id.pub").write_text(f"# mine\n{PUBLIC_KEY}\n")
    from_file = render(loaded(folder=tmp_path, ssh={"public_key": "id.pub", "jump": ["created"]}))
    assert from_file.racks[0].parameters == {"sshPublicKey": {"value": PUBLIC_KEY}}
    assert from_file.missing_parameters == () and from_file.notes == ()
    missing = render(loaded(folder=tmp_path, ssh={"public_key": "gone.pub", "jump": ["created"]}))
    assert missing.missing_parameters == ("sshPublicKey",)
    entry = json.loads(missing.files()["rack01.parameters.json"])["parameters"]["sshPublicKey"]
    assert "value" not in entry and "gone.pub does not exist" in entry["metadata"]["note"]
    assert "ssh-keygen" in missing.notes[0]
    unset = loaded(ssh={"jump": ["created"]})
    assert render(unset).missing_parameters == ("sshPublicKey",)
    assert render(unset, PUBLIC_KEY).foundation.parameters == {"sshPublicKey": {"value": PUBLIC_KEY}}
    assert render(unset).racks == tuple(
        type(one)(one.name, one.rack, one.template, render(unset).racks[0].parameters)
        for one in render(unset, PUBLIC_KEY).racks
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nx\n", "holds a private key"),
        ("\n# nothing\n", "holds no key"),
        ("ecdsa-sha2-nistp256 AAAA x\n", "this is ecdsa-sha2-nistp256"),
    ],
)
def test_a_wrong_key_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "id.pub").write_text(content)
    error = refusal(folder=tmp_path, ssh={"public_key": "id.pub", "jump": ["created"]})
    assert error.code == "render.public-key" and message in error.message


def test_static_racks_have_nothing_to_render() -> None:
    static = Inventory.model_validate(
        {"cluster": "lab", "profile": "gb300", "static": [{"rack": 1, "nodes": ["10.0.0.1"]}]}
    )
    with pytest.raises(NdctlError) as caught:
        render(LoadedInventory(static, load_profile("gb300"), Path("lab.yaml")))
    assert (caught.value.code, caught.value.exit_code) == ("render.static", ExitCode.USAGE)
    assert "ndctl validate lab.yaml" in caught.value.hint


def test_refusals() -> None:
    assert refusal(tags={"NDCTL-Cluster": "x"}).code == "render.tag-clash"
    small = refusal(network={"create": "10.0.0.0/24"}, racks=7)
    assert small.code == "render.address-space" and "room for 123 nodes" in small.message
    assert refusal(tags={f"t{n}": "x" for n in range(48)}).code == "render.arm-limit"


def test_arm_limits_are_held() -> None:
    resource = {"type": "t/x", "name": "n"}
    broken = {
        "resources": {"resources": [resource] * 801},
        "parameters": {"resources": [], "parameters": {str(n): {} for n in range(257)}},
        "value of tag": {"resources": [{**resource, "tags": {"a": "x" * 257}}]},
        "name of tag": {"resources": [{**resource, "tags": {"a" * 513: ""}}]},
        "tags": {"resources": [{**resource, "tags": {str(n): "" for n in range(51)}}]},
        "bytes of resource": {"resources": [{**resource, "x": "y" * 2**20}]},
        "bytes of template": {"resources": [{**resource, "x": "y" * 900_000}] * 5},
    }
    for unit, template in broken.items():
        with pytest.raises(NdctlError, match=unit) as caught:
            hold_limits("d", template)
        assert caught.value.code == "render.arm-limit"
    hold_limits("d", {"resources": [resource] * 800, "parameters": {str(n): {} for n in range(256)}})
    with pytest.raises(NdctlError, match="custom data"):
        hold_custom_data("x" * 65_537)


def test_a_template_can_neither_write_a_bare_value_nor_miss_one() -> None:
    made = environment()
    with pytest.raises(jinja2.TemplateRuntimeError, match="unquoted"):
        made.from_string('{"a": "{{ name }}"}').render(name="x")
    for filter_name in ("json", "sh", "expression"):
        with pytest.raises(jinja2.UndefinedError, match="nam"):
            made.from_string(f"{{{{ nam|{filter_name} }}}}").render(name="x")
    with pytest.raises(jinja2.UndefinedError):
        made.from_string("{{ nam }}").render(name="x")


def test_cloud_init_is_yaml_without_secrets_and_prints_host_keys(case: tuple[str, Rendered]) -> None:
    text = case[1].cloud_init
    assert text.startswith("#cloud-config\n")
    document = yaml.safe_load(text)
    assert document["ssh"]["emit_keys_to_console"] is True and document["ssh_pwauth"] is False
    assert not re.search(r"PRIVATE|passw(?!or)|SharedAccess|AccountKey|sig=", text)
    assert PUBLIC_KEY.split()[1] not in text
    for entry in document["write_files"]:
        assert entry["content"].endswith("\n") and not entry["content"].startswith(" ")
    names = {entry["path"].rsplit("/", 1)[1] for entry in document["write_files"]}
    assert ("ndctl-imex-peers" in names) == (case[0] != "h200-no-block")
    enabled = [command[-1] for command in document["runcmd"] if "enable" in command]
    assert all(unit in names for unit in enabled)
