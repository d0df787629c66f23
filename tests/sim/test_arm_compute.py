"""Scale sets and their instances through the official SDKs, and that the nodes behind them are the same machines."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
import requests
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from ndctl.sim.world import World
from tests.sim.arm_clients import Region, golden, golden_key, region

__all__ = ["region"]
SET = "swc-a-rack01"


@pytest.fixture(scope="module")
def group(region: Region) -> str:
    """A deployed foundation and rack."""
    name = region.group("rg-rack")
    region.deploy(name, "foundation", golden("foundation", name), sshPublicKey=golden_key())
    region.deploy(name, "rack01", golden("rack01", name), sshPublicKey=golden_key())
    return name


def keys_told(region: Region, group: str, instance_id: str) -> str:
    command: Any = {"commandId": "RunShellScript", "script": ["cat /etc/ssh/ssh_host_*_key.pub"]}
    machines = region.compute.virtual_machine_scale_set_vms
    result = machines.begin_run_command(group, SET, instance_id, command).result()
    return result.value[0].message.partition("[stdout]")[2].partition("[stderr]")[0].strip()


def vm_of(region: Region, group: str, instance_id: str) -> Any:
    machines = region.compute.virtual_machine_scale_set_vms
    return machines.get(group, SET, instance_id, expand="instanceView")


def addresses(region: Region, group: str) -> dict[str, str]:
    listed = region.network.network_interfaces.list_virtual_machine_scale_set_network_interfaces(group, SET)
    return {
        nic.properties.virtual_machine.id.split("/")[-1]: nic.properties.ip_configurations[
            0
        ].properties.private_ip_address
        for nic in listed
    }


def test_instances_are_listed_with_their_view_and_one_subgroup(region: Region, group: str) -> None:
    machines = list(region.compute.virtual_machine_scale_set_vms.list(group, SET, expand="instanceView"))
    assert [one.instance_id for one in machines] == [str(n) for n in range(18)]
    views = [one.properties.instance_view for one in machines]
    assert len({view.interconnect_instance_view.interconnect_subgroup_id for view in views}) == 1
    assert {status.code for view in views for status in view.statuses} == {
        "ProvisioningState/succeeded",
        "PowerState/running",
    }
    assert len({one.properties.vm_id for one in machines}) == 18
    plain = list(region.compute.virtual_machine_scale_set_vms.list(group, SET))
    assert all(one.properties.instance_view is None for one in plain)
    assert machines[0].properties.os_profile.custom_data is None


def test_the_subgroup_of_the_instances_is_the_groups_subgroup(region: Region, group: str) -> None:
    (subgroup,) = region.network.subgroups.list(group, "swc-a-group")
    view = vm_of(region, group, "4").properties.instance_view
    assert subgroup.properties.internal_subgroup_id == view.interconnect_instance_view.interconnect_subgroup_id
    assert subgroup.properties.interconnect_block.id.endswith(f"/interconnectBlocks/{SET}")
    assert len(subgroup.properties.virtual_machines) == 18
    available = region.network.interconnect_groups.begin_get_node_availability(group, "swc-a-group").result()
    counts = {
        one.internal_subgroup_id: (one.in_service_node_count, one.in_use_node_count, one.count)
        for one in available.subgroups_node_availability
    }
    assert counts.pop(subgroup.properties.internal_subgroup_id) == (18, 18, 18)
    assert len(counts) > 63 and set(counts.values()) == {(18, 0, 18)}


def test_the_block_tells_its_capacity_only_when_asked(region: Region, group: str) -> None:
    blocks = region.compute.interconnect_blocks
    block = blocks.get(group, SET, expand="instanceView")
    assert block.properties.instance_view.current_capacity == 18 == block.sku.capacity
    assert len(block.properties.virtual_machines_associated) == 18
    assert blocks.get(group, SET).properties.instance_view is None


def test_addresses_are_loopback_addresses_on_which_ssh_answers(region: Region, group: str) -> None:
    told = addresses(region, group)
    assert told["0"].endswith(".1.11") and told["17"].endswith(".1.28") and len(set(told.values())) == 18
    for address in (told["0"], told["17"]):
        with socket.create_connection((address, region.ssh_port), timeout=10) as connection:
            assert connection.recv(64).startswith(b"SSH-2.0-")


def test_run_command_console_and_node_agree_on_the_host_key(region: Region, group: str) -> None:
    told = keys_told(region, group, "5")
    machines = region.compute.virtual_machine_scale_set_vms
    url = machines.retrieve_boot_diagnostics_data(group, SET, "5").serial_console_log_blob_uri
    console = requests.get(url, verify=region.ca, timeout=10).text
    printed = console.partition("-----BEGIN SSH HOST KEY KEYS-----")[2].partition("-----END SSH")[0].strip()
    node = World(region.path).vm_at(addresses(region, group)["5"])
    assert node is not None
    assert told == printed == "\n".join(node.host_public_keys)
    assert requests.get(url[:-1] + ("0" if url[-1] != "0" else "1"), verify=region.ca, timeout=10).status_code == 403


def test_run_command_gives_both_streams_and_knows_one_document(region: Region, group: str) -> None:
    machines = region.compute.virtual_machine_scale_set_vms
    command: Any = {"commandId": "RunShellScript", "script": ["echo $word", "echo no >&2"]}
    command["parameters"] = [{"name": "word", "value": "it's"}]
    status = machines.begin_run_command(group, SET, "1", command).result().value[0]
    assert status.code == "ProvisioningState/succeeded"
    assert status.message == "Enable succeeded: \n[stdout]\nit's\n\n[stderr]\nno\n"
    with pytest.raises(HttpResponseError, match="RunPowerShellScript"):
        machines.begin_run_command(group, SET, "1", {"commandId": "RunPowerShellScript"}).result()


def test_reimage_changes_the_host_key_and_restart_does_not(region: Region, group: str) -> None:
    machines = region.compute.virtual_machine_scale_set_vms
    before = keys_told(region, group, "2")
    machines.begin_restart(group, SET, "2").result()
    assert keys_told(region, group, "2") == before
    machines.begin_reimage(group, SET, "2").result()
    assert keys_told(region, group, "2") != before


def test_redeploy_moves_the_machine_to_another_host(region: Region, group: str) -> None:
    address = addresses(region, group)["3"]
    before = World(region.path).vm_at(address)
    region.compute.virtual_machine_scale_set_vms.begin_redeploy(group, SET, "3").result()
    after = World(region.path).vm_at(address)
    assert before is not None and after is not None and before.physical_host != after.physical_host


def test_a_stopped_machine_says_so_and_takes_no_commands(region: Region, group: str) -> None:
    machines = region.compute.virtual_machine_scale_set_vms
    machines.begin_power_off(group, SET, "6").result()
    codes = [status.code for status in vm_of(region, group, "6").properties.instance_view.statuses]
    assert codes == ["ProvisioningState/succeeded", "PowerState/stopped"]
    with pytest.raises(HttpResponseError):
        keys_told(region, group, "6")
    machines.begin_start(group, SET, "6").result()
    assert keys_told(region, group, "6")


def test_a_deleted_instance_leaves_a_gap_that_a_new_id_fills(region: Region, group: str) -> None:
    machines, sets = region.compute.virtual_machine_scale_set_vms, region.compute.virtual_machine_scale_sets
    old = addresses(region, group)["9"]
    machines.begin_delete(group, SET, "9").result()
    assert sets.get(group, SET).sku.capacity == 17
    with pytest.raises(ResourceNotFoundError):
        machines.get(group, SET, "9")
    sku: Any = {"sku": {"name": "Standard_ND128isr_GB300_v6", "tier": "Standard", "capacity": 18}}
    assert sets.begin_update(group, SET, sku).result().sku.capacity == 18
    told = addresses(region, group)
    assert "9" not in told and told["18"] == old


def test_several_instances_can_be_named_at_once(region: Region, group: str) -> None:
    sets: Any = region.compute.virtual_machine_scale_sets
    before = {one: keys_told(region, group, one) for one in ("10", "11", "12")}
    sets.begin_reimage(group, SET, {"instanceIds": ["10", "11"]}).result()
    changed = {one for one, key in before.items() if keys_told(region, group, one) != key}
    assert changed == {"10", "11"}
    sets.begin_update_instances(group, SET, {"instanceIds": ["*"]}).result()
    with pytest.raises(ResourceNotFoundError):
        sets.begin_delete_instances(group, SET, {"instanceIds": ["777"]})
    summary = sets.get_instance_view(group, SET).virtual_machine.statuses_summary
    assert {one.code: one.count for one in summary}["PowerState/running"] == 18


def test_the_jump_host_is_reached_on_its_public_address(region: Region, group: str) -> None:
    public = region.network.public_ip_addresses.get(group, "swc-a-jump-ip").properties.ip_address
    card = region.network.network_interfaces.get(group, "swc-a-jump-nic")
    assert card.properties.ip_configurations[0].properties.private_ip_address == public
    assert card.properties.virtual_machine.id.endswith("/swc-a-jump")
    machine = region.compute.virtual_machines.get(group, "swc-a-jump", expand="instanceView")
    assert machine.properties.instance_view.statuses[1].code == "PowerState/running"
    with socket.create_connection((public, region.ssh_port), timeout=10) as connection:
        assert connection.recv(64).startswith(b"SSH-2.0-")


def test_the_ledger_counts_what_would_cost_money(region: Region, group: str) -> None:
    entries = json.loads((region.path / "ledger.json").read_text())
    running = {one["id"].split("/")[-1]: one for one in entries if one["until"] is None and f"/{group}/" in one["id"]}
    assert running[SET]["count"] == 18 and running[SET]["size"] == "Standard_ND128isr_GB300_v6"
    assert {"swc-a-nat", "swc-a-nat-ip", "swc-a-jump-ip", "swc-a-jump", "swc-a-jump-os", SET} == set(running)


def test_what_is_in_use_cannot_be_deleted(region: Region, group: str) -> None:
    for ask, code in (
        (lambda: region.compute.interconnect_blocks.begin_delete(group, SET), "OperationNotAllowed"),
        (lambda: region.network.interconnect_groups.delete(group, "swc-a-group"), "InUseInterconnectGroup"),
        (lambda: region.network.virtual_networks.begin_delete(group, "swc-a-vnet"), "InUseSubnet"),
        (lambda: region.network.nat_gateways.begin_delete(group, "swc-a-nat"), "InUseNatGateway"),
        (lambda: region.network.network_interfaces.begin_delete(group, "swc-a-jump-nic"), "NicInUse"),
    ):
        with pytest.raises(HttpResponseError, match=code):
            ask()


def test_deleting_from_the_top_down_leaves_nothing(region: Region) -> None:
    group = region.group("rg-gone")
    region.deploy(group, "foundation", golden("foundation", group), sshPublicKey=golden_key())
    region.deploy(group, "rack01", golden("rack01", group), sshPublicKey=golden_key())
    address = addresses(region, group)["0"]
    region.compute.virtual_machine_scale_sets.begin_delete(group, SET).result()
    assert World(region.path).vm_at(address) is None
    region.compute.interconnect_blocks.begin_delete(group, SET).result()
    region.network.interconnect_groups.delete(group, "swc-a-group")
    region.compute.virtual_machines.begin_delete(group, "swc-a-jump").result()
    # deleteOption Delete: disk and interface go with their machine.
    left = {one.name for one in region.resources.resources.list_by_resource_group(group)}
    assert left == {"swc-a-identity", "swc-a-nsg", "swc-a-vnet", "swc-a-nat", "swc-a-nat-ip", "swc-a-jump-ip"}
    region.resources.resource_groups.begin_delete(group).result()
    assert not region.resources.resource_groups.check_existence(group)
    entries = json.loads((region.path / "ledger.json").read_text())
    assert not [one for one in entries if one["until"] is None and f"/{group}/" in one["id"]]
