"""ndctl nodes for other programs: a cluster of the embedded region, and a laboratory whose runs name NVLink domains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import Lab
from tests.report.test_host_lists import seen_by_ansible, seen_by_ssh

if TYPE_CHECKING:
    from conftest import Region, Said

    Ndctl = Callable[..., Said]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    made = Lab(tmp_path, racks=2, nodes=2)
    yield made
    made.close()


def test_a_deployed_cluster_is_listed_for_ssh_and_ansible(region: Region, ndctl: Ndctl, tmp_path: Path) -> None:
    inventory = region.inventory()
    assert ndctl("deploy", inventory, "--yes").code == 0
    config = ndctl("nodes", inventory, "-o", "ssh-config")
    assert config.code == 0, config.err
    assert "rack01-n[01-18]: no host key in " in config.err  # nobody has met these nodes yet
    told = seen_by_ssh(config.out, tmp_path, "rack01-n18")
    assert told["port"] == str(region.running.ssh_port) and told["stricthostkeychecking"] in ("true", "yes")
    assert told["userknownhostsfile"].startswith(str(tmp_path / "state"))
    assert told["identityfile"] == str(region.directory.file("id_ed25519"))
    hosts = ndctl("nodes", inventory, "-o", "ansible")
    assert hosts.code == 0
    seen = seen_by_ansible(hosts.out, tmp_path)
    assert len(seen["rack01"]["hosts"]) == 18
    assert seen["_meta"]["hostvars"]["rack01-n18"]["ansible_host"] == told["hostname"]
    assert seen["_meta"]["hostvars"]["rack01-n18"]["ndctl_vm_id"]
    assert ndctl("nodes", inventory, "-o", "slurm-topology").code == 2  # no run is recorded


def test_the_deployed_jump_vm_is_written_with_what_azure_says_of_it(
    region: Region, ndctl: Ndctl, tmp_path: Path
) -> None:
    key = region.directory.file("id_ed25519.pub")
    ssh = {"port": region.running.ssh_port, "public_key": str(key), "jump": ["created"]}
    inventory = region.inventory(ssh=ssh)
    assert ndctl("deploy", inventory, "--yes").code == 0
    cluster = inventory.read_text().partition("cluster: ")[2].split()[0]
    text = ndctl("nodes", inventory, "-o", "ssh-config").out
    told = seen_by_ssh(text, tmp_path, "rack01-n01")
    assert told["proxyjump"] == f"{cluster}-jump-1"
    jump = seen_by_ssh(text, tmp_path, f"{cluster}-jump-1")
    known = Path(jump["userknownhostsfile"].split()[0]).read_text()  # then the files of whoever asks
    assert f"[{jump['hostname']}]:{jump['port']} " in known
    ansible = ndctl("nodes", inventory, "-o", "ansible")
    assert "ProxyCommand=ssh" in ansible.out and "so ssh will refuse" in ansible.err
    assert ndctl("validate", inventory, "--level", "quick", "--only", "host").code == 0
    assert "so ssh will refuse" not in ndctl("nodes", inventory, "-o", "ansible").err


def test_slurm_blocks_come_from_the_last_run_and_are_never_guessed(lab: Lab, ndctl: Ndctl) -> None:
    assert "no run is recorded yet" in ndctl("nodes", lab.inventory, "-o", "slurm-topology").err
    ndctl("validate", lab.inventory, "--level", "quick", "--only", "nvlink", "--rack", "1")
    half = ndctl("nodes", lab.inventory, "-o", "slurm-topology")
    assert half.code == 8
    assert "rack02-n[01-02]: in no block" in half.err
    assert "BlockName=rack01 Nodes=rack01-n[01-02]\nBlockSizes=2\n" in half.out
    assert "# in no block, no recorded run asked them: rack02-n[01-02]" in half.out

    lab.faults.add("node-down", node="rack02-n02")
    lab.sync()
    ndctl("validate", lab.inventory, "--level", "quick", "--only", "nvlink")
    some = ndctl("nodes", lab.inventory, "-o", "slurm-topology")
    assert "BlockName=rack02 Nodes=rack02-n01\nBlockSizes=1\n" in some.out
    assert "# in no block, no GPU listed in run " in some.out and ": rack02-n02\n" in some.out

    # Another machine at that address's place is not the one the run knew.
    lab.faults.clear()
    lab.sync()
    ndctl("validate", lab.inventory, "--level", "quick", "--only", "nvlink")
    whole = ndctl("nodes", lab.inventory, "-o", "slurm-topology-yaml")
    assert "in no block" not in whole.out and "nodes: rack02-n[01-02]" in whole.out
    text = lab.inventory.read_text()
    first, second = text.partition("{rack: 2, nodes: [")[2].partition("]")[0].split(", ")
    lab.inventory.write_text(text.replace(f"{first}, {second}", f"{second}, {first}"))
    moved = ndctl("nodes", lab.inventory, "-o", "slurm-topology")
    assert "another VM since run" in moved.out and "BlockName=rack02" not in moved.out


def test_chosen_nodes_only(lab: Lab, ndctl: Ndctl) -> None:
    said = ndctl("nodes", lab.inventory, "--nodes", "rack[01-02]-n01!rack02-n01", "-o", "hostfile")
    assert (said.code, len(said.out.splitlines())) == (0, 1)
    assert "1 of 4 nodes: rack01-n01" in said.err
    assert ndctl("nodes", lab.inventory, "--rack", "7").code == 2
    assert ndctl("nodes", lab.inventory, "--rack", "1", "--exclude", "rack01-n[01-02]").code == 2
