"""ndctl drift: what somebody changed in Azure by hand is found, property by property, and nothing is put right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ndctl.azure.clients import AzureClients, connect
from ndctl.inventory.loader import load
from ndctl.render.drifted import Drifted, Sort, drifted

if TYPE_CHECKING:
    from conftest import Region, Said

    Ndctl = Callable[..., Said]


@contextmanager
def by_hand(inventory: Path) -> Iterator[tuple[AzureClients, str]]:
    """What a person with the portal could do."""
    loaded = load(inventory)
    clients = connect(loaded)
    try:
        yield clients, loaded.inventory.cluster
    finally:
        clients.close()


@pytest.fixture
def inventory(region: Region, ndctl: Ndctl) -> Path:
    ssh = {"port": region.running.ssh_port, "public_key": "id_ed25519.pub", "jump": ["created"]}
    made = region.inventory(racks=2, ssh=ssh)
    assert ndctl("deploy", made, "--yes").code == 0
    return made


def test_what_was_just_deployed_has_not_drifted(region: Region, ndctl: Ndctl, inventory: Path) -> None:
    requests = len(region.requests())
    said = ndctl("drift", inventory, "--detailed-exitcode")
    assert said.code == 0, said.out
    assert "resources compared: no drift" in said.out
    assert {one["method"] for one in region.requests()[requests:] if not one["path"].endswith("/token")} == {"GET"}
    told = json.loads(ndctl("drift", inventory, "-o", "json").out)
    assert told["drift"] == [] and told["unread"] == [] and told["compared_resources"] >= 8
    assert {one["path"].rpartition(".")[2] for one in told["not_told"]} == {"customData"}


def test_changes_by_hand_are_named(region: Region, ndctl: Ndctl, inventory: Path) -> None:
    with by_hand(inventory) as (clients, cluster):
        group = clients.resource_group
        sets = clients.compute.virtual_machine_scale_sets
        one = sets.get(group, f"{cluster}-rack02")
        one.tags = {**(one.tags or {}), "owner": "somebody"}
        sets.begin_create_or_update(group, f"{cluster}-rack02", one).wait(60)
        rule: Any = {
            "properties": {
                "priority": 900, "direction": "Inbound", "access": "Allow", "protocol": "Tcp",
                "sourceAddressPrefix": "*", "sourcePortRange": "*",
                "destinationAddressPrefix": "*", "destinationPortRange": "22",
            }
        }  # fmt: skip
        security = clients.network.network_security_groups.get(group, f"{cluster}-nsg")
        body: Any = security.as_dict()
        body["properties"]["securityRules"].append({"name": "open-to-all", **rule})
        clients.network.network_security_groups.begin_create_or_update(group, f"{cluster}-nsg", body).wait(60)
    said = ndctl("drift", inventory, "--detailed-exitcode")
    assert said.code == 9
    assert "rack02  virtualMachineScaleSets  tags.owner: somebody was added" in said.out
    assert "securityRules.open-to-all" in said.out and "was added" in said.out
    assert "2 differences" in said.out and f"next: ndctl plan {inventory}" in said.out
    assert ndctl("drift", inventory).code == 0

    ignore = [
        {"path": "tags.owner", "reason": "billing sets it"},
        {"path": "networkSecurityGroups/*:properties.securityRules.*", "reason": "was agreed", "until": "2020-01-01"},
        {"path": "tags.nothing", "reason": "of old"},
    ]
    region.change(inventory, drift={"ignore": ignore})
    fewer = ndctl("drift", inventory, "--detailed-exitcode")
    assert fewer.code == 9 and "1 difference · 1 ignored" in fewer.out and "tags.owner" not in fewer.out
    assert "'networkSecurityGroups/*:properties.securityRules.*' expired on 2020-01-01" in fewer.err
    assert "'tags.nothing' fits nothing that differs" in fewer.err
    assert "ignored: rack02  virtualMachineScaleSets" in ndctl("-v", "drift", inventory).out
    told = json.loads(ndctl("drift", inventory, "-o", "json").out)
    assert [one["ignored"] for one in told["ignored"]] == ["billing sets it"]


def test_a_resource_that_is_gone_and_one_that_nobody_asked_for(region: Region, ndctl: Ndctl, inventory: Path) -> None:
    region.change(inventory, racks=1)
    with by_hand(inventory) as (clients, cluster):
        clients.compute.virtual_machine_scale_sets.begin_delete(clients.resource_group, f"{cluster}-rack01").wait(60)
    said = ndctl("drift", inventory, "--detailed-exitcode")
    assert said.code == 9
    assert "rack01  virtualMachineScaleSets  is missing" in said.out
    assert "rack02  virtualMachineScaleSets  is in Azure and not in the inventory" in said.out
    assert "rack02  interconnectBlocks  is in Azure and not in the inventory" in said.out
    region.change(inventory, drift={"ignore": [{"path": "*", "reason": "all of it"}]})
    assert ndctl("drift", inventory, "--detailed-exitcode").code == 9  # "*" is properties, and hides no whole resource


def test_nothing_deployed_and_a_wrong_ignore_list(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory()
    said = ndctl("drift", inventory, "--detailed-exitcode")
    assert said.code == 0 and "nothing to compare" in said.out
    region.change(inventory, drift={"ignore": [{"path": "tags.x", "reason": "yes it is", "until": "2026-13-01"}]})
    wrong = ndctl("drift", inventory)
    assert wrong.code == 2 and "'2026-13-01' is no day of the calendar" in wrong.err and ".yaml:" in wrong.err


@pytest.mark.parametrize(
    ("wanted", "live", "found"),
    [
        ({"location": "swedencentral"}, {"location": "Sweden Central"}, []),
        ({"a": {"id": "/subscriptions/S/x"}}, {"A": {"ID": "/subscriptions/s/X"}}, []),
        ({"properties": {"x": 1}}, {"properties": {"x": 1, "provisioningState": "Succeeded"}}, []),
        ({"zones": ["1"]}, {"zones": ["2"]}, [("zones.1", Sort.GONE), ("zones.2", Sort.ADDED)]),
        ({"subnet": {"natGateway": {"id": "x"}}}, {"subnet": {}}, [("subnet.natGateway", Sort.GONE)]),
        ({"overprovision": False}, {}, [("overprovision", Sort.NOT_TOLD)]),
        ({"osProfile": {"customData": "YQ=="}}, {"osProfile": {}}, [("osProfile.customData", Sort.NOT_TOLD)]),
        ({"tags": {"a": "1"}}, {"tags": {}}, [("tags.a", Sort.GONE)]),
        ({"tags": {"a": "1"}}, {"tags": {"A": "1", "b": "2"}}, [("tags.b", Sort.ADDED)]),
        ({"flag": True}, {"flag": "true"}, []),
        ({"flag": True}, {"flag": 1}, [("flag", Sort.DIFFERS)]),
        ({"capacity": 18}, {"capacity": None}, [("capacity", Sort.NOT_TOLD)]),
        (
            {"keys": [{"path": "/a", "keyData": None}]},
            {"keys": [{"path": "/a", "keyData": "x"}]},
            [("keys.a.keyData", Sort.NOT_TOLD)],
        ),
    ],
)  # fmt: skip
def test_what_counts_as_drift(wanted: dict[str, Any], live: dict[str, Any], found: list[tuple[str, Sort]]) -> None:
    assert [(one.path, one.sort) for one in drifted(wanted, live)] == found
    assert drifted(wanted, wanted) == tuple(
        one for one in drifted(wanted, wanted) if one == Drifted("osProfile.customData", Sort.NOT_TOLD, "write-only")
        or one.path.endswith("keyData")
    )  # fmt: skip
