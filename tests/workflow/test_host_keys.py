"""known_hosts: keys belong to VMs, come from Azure, and are asked for only when they are not known."""

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ndctl.azure.host_keys
from ndctl.azure.host_keys import LearnedKeys
from ndctl.inventory.loader import Loaded, load
from ndctl.model.places import Cluster, Node, Rack
from ndctl.workflow.host_keys import known_hosts_path, learn_host_keys

AZURE = """
cluster: swc-a
subscription: 00000000-0000-0000-0000-000000000000
resource_group: rg
region: swedencentral
racks: 1
vm_size: Standard_ND128isr_GB300_v6
network: {create: 10.40.0.0/16}
ssh: {port: 2222}
"""
SCALE_SET = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/swc-a-rack01"


class Azure:
    """Answers in place of `azure.host_keys.learn_host_keys`; counts who was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.generation = "A"
        self.dumb: set[str] = set()

    def __call__(self, clients: object, scale_set: str, instance_id: str) -> LearnedKeys:
        assert scale_set == "swc-a-rack01"
        self.asked.append(instance_id)
        if instance_id in self.dumb:
            return LearnedKeys((), problem="run command: VM agent does not answer")
        return LearnedKeys((("ssh-ed25519", f"KEY{self.generation}{instance_id}"),), "run command")


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    stand_in = Azure()
    monkeypatch.setattr(ndctl.azure.host_keys, "learn_host_keys", stand_in)
    yield stand_in


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "a.yaml").write_text(AZURE)
    return load(tmp_path / "a.yaml")


def node(position: int, vm: str = "") -> Node:
    return Node(
        f"rack01-n{position:02d}",
        "rack01",
        address=f"127.1.1.{position}",
        port=2222,
        instance_id=str(position),
        resource_id=f"{SCALE_SET}/virtualMachines/{position}",
        vm_id=vm or f"vm-{position}",
    )


def cluster(*nodes: Node) -> Cluster:
    return Cluster("swc-a", (Rack("rack01", 1, 18, nodes),))


def learn(loaded: Loaded, *nodes: Node, relearn: bool = False) -> dict[str, str]:
    return learn_host_keys(loaded, cluster(*nodes), relearn=relearn, clients=object())  # type: ignore[arg-type]


def test_written_once_in_openssh_form_and_private(loaded: Loaded, azure: Azure) -> None:
    assert learn(loaded, node(1), node(2)) == {}
    path = known_hosts_path(loaded)
    assert path.read_text() == "[127.1.1.1]:2222 ssh-ed25519 KEYA1\n[127.1.1.2]:2222 ssh-ed25519 KEYA2\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    learn(loaded, node(1), node(2), node(3))
    assert sorted(azure.asked) == ["1", "2", "3"]


def test_port_22_is_not_written(loaded: Loaded, azure: Azure) -> None:
    learn(loaded, replace(node(1), port=22))
    assert known_hosts_path(loaded).read_text() == "127.1.1.1 ssh-ed25519 KEYA1\n"


def test_a_key_is_learned_anew_for_another_vm_but_not_for_the_same(loaded: Loaded, azure: Azure) -> None:
    learn(loaded, node(1))
    azure.generation = "B"
    learn(loaded, node(1))
    assert "KEYA1" in known_hosts_path(loaded).read_text()
    learn(loaded, node(1, vm="another"))
    assert known_hosts_path(loaded).read_text() == "[127.1.1.1]:2222 ssh-ed25519 KEYB1\n"


def test_relearn_asks_again(loaded: Loaded, azure: Azure) -> None:
    learn(loaded, node(1))
    azure.generation = "B"
    learn(loaded, node(1), relearn=True)
    assert known_hosts_path(loaded).read_text() == "[127.1.1.1]:2222 ssh-ed25519 KEYB1\n"


def test_the_old_key_of_a_replaced_vm_goes_even_when_asking_fails(loaded: Loaded, azure: Azure) -> None:
    learn(loaded, node(1), node(2))
    azure.dumb = {"1"}
    problems = learn(loaded, node(1, vm="another"), node(2))
    assert problems == {"rack01-n01": "run command: VM agent does not answer"}
    assert known_hosts_path(loaded).read_text() == "[127.1.1.2]:2222 ssh-ed25519 KEYA2\n"


def test_other_lines_of_the_file_stay(loaded: Loaded, azure: Azure) -> None:
    path = known_hosts_path(loaded)
    path.write_text("jump.example ssh-ed25519 JUMP\n[127.1.1.1]:2222 ssh-ed25519 STALE\n")
    learn(loaded, node(1))
    assert path.read_text() == "jump.example ssh-ed25519 JUMP\n[127.1.1.1]:2222 ssh-ed25519 KEYA1\n"


def test_a_part_of_the_cluster_leaves_the_other_nodes_keys(loaded: Loaded, azure: Azure) -> None:
    learn(loaded, node(1), node(2))
    learn(loaded, node(2))
    assert "KEYA1" in known_hosts_path(loaded).read_text()
    learn(loaded, node(1), node(2))
    assert azure.asked.count("1") == 1


def test_nodes_without_an_address_are_not_asked(loaded: Loaded, azure: Azure) -> None:
    assert learn(loaded, replace(node(1), address="")) == {}
    assert azure.asked == []


def test_static_racks_learn_nothing(tmp_path: Path, azure: Azure) -> None:
    (tmp_path / "s.yaml").write_text(
        "cluster: lab\nprofile: gb300\nssh: {known_hosts: kh}\nstatic:\n- {rack: 1, nodes: [a, b]}\n"
    )
    lab = load(tmp_path / "s.yaml")
    assert learn(lab, node(1)) == {} and azure.asked == []
    assert known_hosts_path(lab) == tmp_path / "kh"
