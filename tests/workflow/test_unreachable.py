"""Why a node does not answer: the VM, its SSH server or the network; and nobody is blamed unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from ndctl.azure.clients import AzureClients, connect
from ndctl.inventory.loader import Loaded
from ndctl.model.answers import OutcomeKind
from ndctl.model.status import Status
from ndctl.report import schemas
from ndctl.workflow.deploy import deploy
from ndctl.workflow.jump_hosts import learn_jump_host
from ndctl.workflow.nodes import discover, learn_host_keys
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy
from ndctl.workflow.transport import open_transport
from ndctl.workflow.unreachable import DIAGNOSIS_SCHEMA, Diagnosis, Why, diagnose
from ndctl.workflow.unreachable_script import troubles

if TYPE_CHECKING:
    from conftest import Region

NODE = "rack01-n02"
Ask = Callable[[], Diagnosis]


@pytest.fixture
def loaded(region: Region) -> Loaded:
    return region.loaded(vms_per_rack=3)


@pytest.fixture
def clients(loaded: Loaded) -> Iterator[AzureClients]:
    made = connect(loaded)
    yield made
    made.close()


@pytest.fixture
def ask(loaded: Loaded, clients: AzureClients, region: Region) -> Ask:
    rendered = render_to_deploy(loaded)
    deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients)
    cluster = discover(loaded, clients)
    assert learn_host_keys(loaded, cluster, clients=clients) == {}
    learn_jump_host(loaded, clients)
    node = next(one for one in cluster.nodes if one.name == NODE)

    def look() -> Diagnosis:
        # The region's listeners follow what is planted within a moment.
        for _ in range(50):
            with closing(open_transport(loaded, cluster, 8)) as transport:
                told = diagnose(loaded, cluster, [node], clients, transport, run_command_s=3)[NODE]
            if told.why is not Why.ANSWERS or not region.faults.list():
                break
        return told

    return look


def test_a_node_that_answers(ask: Ask) -> None:
    told = ask()
    assert told.why is Why.ANSWERS and told.finding().status is Status.PASS


@pytest.mark.parametrize(
    ("kind", "where", "why", "sign", "step"),
    [
        ("vm-dead", {"how": "hung"}, Why.VM_DEAD, "VM agent: Not Ready, VM Agent is unresponsive.", "--action reboot"),
        ("vm-dead", {"how": "stopped"}, Why.VM_STOPPED, "power stopped", "az vmss start"),
        ("sshd-broken", {"how": "inactive"}, Why.SSHD_BROKEN, "ssh.service inactive", "--action reimage"),
        ("sshd-broken", {"how": "config"}, Why.SSHD_BROKEN, "Bad configuration option", "--action reimage"),
        ("sshd-broken", {"how": "disk-full"}, Why.SSHD_BROKEN, "/ is full", "--action reimage"),
        ("sshd-broken", {"how": "key-missing"}, Why.SSHD_BROKEN, "authorized_keys is missing", "--action reimage"),
        ("network-cut", {}, Why.NETWORK_CUT, "another node of its rack answers", "network security group"),
    ],
)
def test_each_is_told_from_the_others(
    region: Region, loaded: Loaded, ask: Ask, kind: str, where: dict[str, Any], why: Why, sign: str, step: str
) -> None:
    region.faults.add(kind, node=NODE, cluster=loaded.inventory.cluster, **where)
    told = ask()
    assert told.why is why, told
    assert any(sign in one for one in told.signs), told.signs
    assert step in told.do[0]
    assert told.dead == (kind == "vm-dead")
    if why is Why.NETWORK_CUT:
        (rules,) = [one for one in told.signs if one.startswith("security group ")]
        assert "allow from 127.0.0.0/8" in rules and "arm-subnet-rules" in told.texts
        refusing = region.faults.add("call-fails", path="networkSecurityGroups", status=403)
        assert any("rules of its subnet: not to be read" in one for one in ask().signs)
        region.faults.clear(id=refusing.id)
    body = {"schema": DIAGNOSIS_SCHEMA, "cluster": "c", "inventory": "i", "nodes": [told.as_dict()], "exit_code": 8}
    assert list(Draft202012Validator(schemas.load("diagnosis")).iter_errors(body)) == []
    seen = Status.UNKNOWN if why is Why.NETWORK_CUT else Status.FAIL
    assert told.finding().status is seen and told.finding().check == f"host.reachable.{why}"


HEALTHY = {
    "ssh.socket": "active", "ssh.service": "inactive", "config-exit": "0", "listens": "LISTEN 0 4096 *:22",
    "answers": "ssh-ed25519", "disk": "41%", "inodes": "3%", "home": "/home/azureuser", "key": "there", "end": "1",
}  # fmt: skip


@pytest.mark.parametrize("kind", [OutcomeKind.REFUSED, OutcomeKind.UNREACHABLE, OutcomeKind.AUTH_FAILED])
@pytest.mark.parametrize(
    "harmless",
    [
        {},
        {"ssh.socket": "inactive", "ssh.service": "active"},
        {"config-exit": "255", "config": "Missing privilege separation directory: /run/sshd"},
        {"config-exit": "127", "config": "sh: 1: sshd: not found"},
        {"disk": "", "inodes": "-"},
    ],
)
def test_a_server_that_works_is_not_blamed(kind: OutcomeKind, harmless: dict[str, str]) -> None:
    assert troubles({**HEALTHY, **harmless}, kind) == ()


def test_a_key_that_nobody_knows_here_is_not_called_missing() -> None:
    assert troubles({**HEALTHY, "key": "other"}, OutcomeKind.AUTH_FAILED, key_known=False) == ()
    assert "not in /home/azureuser" in troubles({**HEALTHY, "key": "other"}, OutcomeKind.AUTH_FAILED)[0]


def test_a_missing_login_key_does_not_silence_a_port() -> None:
    assert troubles({**HEALTHY, "key": "missing"}, OutcomeKind.UNREACHABLE) == ()
