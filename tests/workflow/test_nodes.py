"""Names, addresses and host keys of live nodes, through the real SDKs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import ndctl.azure.host_keys
from ndctl.azure.clients import AzureClients, connect
from ndctl.azure.host_keys import learn_host_keys as learn_one
from ndctl.inventory.loader import Loaded
from ndctl.model.errors import NdctlError
from ndctl.workflow.deploy import deploy
from ndctl.workflow.host_keys import known_hosts_path
from ndctl.workflow.nodes import discover, learn_host_keys
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy
from ndctl.workflow.state_dir import cluster_dir

if TYPE_CHECKING:
    from conftest import Region


@pytest.fixture
def loaded(region: Region) -> Loaded:
    return region.loaded()


@pytest.fixture
def clients(loaded: Loaded) -> Iterator[AzureClients]:
    made = connect(loaded)
    redeploy(loaded, made)
    yield made
    made.close()


def redeploy(loaded: Loaded, clients: AzureClients) -> None:
    rendered = render_to_deploy(loaded)
    deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients)


def test_a_replaced_vm_takes_the_place_of_the_old_one(loaded: Loaded, clients: AzureClients) -> None:
    before = {node.name: node.vm_id for node in discover(loaded, clients).nodes}
    scale_set = f"{loaded.inventory.cluster}-rack01"
    sets = clients.compute.virtual_machine_scale_set_vms
    sets.begin_delete(loaded.inventory.resource_group, scale_set, "4").wait(60)
    gone = {node.name: node.vm_id for node in discover(loaded, clients).nodes}
    assert before.keys() - gone.keys() == {"rack01-n05"}
    redeploy(loaded, clients)
    after = {node.name: node.vm_id for node in discover(loaded, clients).nodes}
    assert after.keys() == before.keys()
    assert {name for name in before if before[name] != after[name]} == {"rack01-n05"}


def test_names_survive_a_lost_state_directory_only_by_instance_order(loaded: Loaded, clients: AzureClients) -> None:
    first = discover(loaded, clients)
    (cluster_dir(loaded.inventory, loaded.path) / "nodes.json").unlink()
    assert discover(loaded, clients) == first


def test_broken_places_are_an_error_not_a_renumbering(loaded: Loaded, clients: AzureClients) -> None:
    discover(loaded, clients)
    (cluster_dir(loaded.inventory, loaded.path) / "nodes.json").write_text("{")
    with pytest.raises(NdctlError, match="which VM stands behind which name"):
        discover(loaded, clients)


def test_keys_by_run_command_and_by_console_are_the_same(
    loaded: Loaded, clients: AzureClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale_set = f"{loaded.inventory.cluster}-rack01"
    by_command = learn_one(clients, scale_set, "0")
    assert by_command.source == "run command" and by_command.keys[0][0] == "ssh-ed25519"
    monkeypatch.setattr(ndctl.azure.host_keys, "_run_command", lambda *_: "the agent gave nothing")
    by_console = learn_one(clients, scale_set, "0")
    assert by_console.source == "boot diagnostics" and by_console.keys == by_command.keys


def test_a_node_that_cannot_be_asked_is_named_and_the_others_learned(loaded: Loaded, clients: AzureClients) -> None:
    cluster = discover(loaded, clients)
    scale_set = f"{loaded.inventory.cluster}-rack01"
    clients.compute.virtual_machine_scale_set_vms.begin_delete(loaded.inventory.resource_group, scale_set, "2").wait(60)
    problems = learn_host_keys(loaded, cluster, clients=clients)
    assert set(problems) == {"rack01-n03"} and "run command" in problems["rack01-n03"]
    lines = known_hosts_path(loaded).read_text().splitlines()
    assert len({line.split()[0] for line in lines}) == 17
    assert all(line.startswith("[127.") and f"]:{loaded.inventory.ssh.port} " in line for line in lines)
