"""The way to nodes as other programs take it is the engine's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ndctl.inventory.loader import Loaded, load
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.report.host_lists import ssh_config
from ndctl.ssh.deadlines import DeadlineKeeper
from ndctl.ssh.routes import Routes
from ndctl.workflow.nodes import discover
from ndctl.workflow.reach import reach_of
from ndctl.workflow.transport import ssh_settings

NESTED = (
    "Host 10.0.0.2\n ProxyJump none\nHost 10.0.0.*\n ProxyJump inner\n"
    "Host inner\n HostName 10.9.9.9\n Port 2209\n User ivy\n UserKnownHostsFile /inner-keys\n ProxyJump outer,mid\n"
    "Host outer\n ProxyJump ssh://edge:2211\nHost mid\n ProxyJump not-asked\n"
    "Match user kim\n IdentityFile /kims\n"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home/.ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path / "home"


def made(folder: Path, config: str, jump: str = "") -> Loaded:
    (folder / "home/.ssh/config").write_text(config)
    path = folder / "lab.yaml"
    path.write_text(
        "cluster: lab\nprofile: gb300\nssh: {user: azureuser, private_key: /key, known_hosts: /keys"
        f"{jump and f', jump: [{jump}]'}}}\nstatic:\n  - {{rack: 1, nodes: [10.0.0.1, 10.0.0.2, 10.0.0.3]}}\n"
    )
    return load(path)


def engines(loaded: Loaded) -> dict[str, list[list[tuple[object, ...]]]]:
    """Node -> the chains by which the engine would dial it, hop by hop."""
    keeper = DeadlineKeeper()
    routes = Routes(ssh_settings(loaded, 1), keeper)
    told = {}
    for node in discover(loaded).nodes:
        _, dial = routes.to(node)
        jumps = getattr(dial, "__self__", None)
        told[node.name] = [
            [(hop.user, hop.host, hop.port, hop.known_hosts.files) for hop in chain.hops]
            for chain in (jumps._chains if jumps else ())
        ]
    keeper.close()
    return told


@pytest.mark.parametrize("jump", ["", "inner", "kim@front, inner"])
def test_chains_are_the_engines_own(tmp_path: Path, jump: str) -> None:
    loaded = made(tmp_path, NESTED, jump)
    cluster = discover(loaded)
    reach = reach_of(loaded, cluster)
    for index, node in enumerate(cluster.nodes):
        hops = [(hop.user, hop.host, hop.port, hop.known_hosts) for hop in reach.hops(reach.way(node, index))]
        chains = engines(loaded)[node.name]
        assert hops in chains if chains else hops == []


def test_a_jump_host_behind_others_is_written_with_all_of_them(tmp_path: Path) -> None:
    loaded = made(tmp_path, NESTED)
    cluster = discover(loaded)
    reach = reach_of(loaded, cluster)
    assert [[f"{hop.user}@{hop.host}:{hop.port}" for hop in chain] for chain in reach.jumps] == [
        ["azureuser@edge:2211", "azureuser@outer:22", "azureuser@mid:22", "ivy@10.9.9.9:2209"]
    ]
    text = ssh_config(cluster, reach, "made by a test")
    assert text.count("ProxyJump lab-jump-1-4") == 2
    of_second = text.partition("Host rack01-n02 ")[2].partition("Host rack01-n03")[0]
    assert "ProxyJump none" in of_second


def test_what_ssh_config_says_of_a_node_counts_as_for_the_engine(tmp_path: Path) -> None:
    loaded = made(tmp_path, "Host 10.0.0.3\n HostName gpu3\n Port 2203\n User ann\n")
    cluster = discover(loaded)
    way = reach_of(loaded, cluster).way(cluster.nodes[2], 2)
    # The inventory names the user, so that stays.
    assert (way.host, way.port, way.user, way.identity_files) == ("gpu3", 2203, "azureuser", (Path("/key"),))


def test_a_jump_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    loaded = made(tmp_path, "Host *\n ProxyJump door:port\n")
    with pytest.raises(NdctlError, match="ProxyJump door:port in ssh_config") as caught:
        reach_of(loaded, discover(loaded))
    assert caught.value.exit_code is ExitCode.USAGE
