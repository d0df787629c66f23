"""Nodes in the words of other programs, read back by those programs: ssh, ansible-inventory, ansible."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ndctl.model.places import Cluster, Node, Rack
from ndctl.report.host_lists import JumpHost, Reach, ansible_inventory, hostfile, ssh_config
from tests.ssh import sshd

KNOWN, KEY = Path("/state/a b/known_hosts"), Path("/keys/100%/id")
JUMPS = (
    (JumpHost("203.0.113.7", "ops", 2222, (KEY,), (KNOWN,)),),
    (JumpHost("bastion", "ops", 22, (KEY,), (KNOWN,)), JumpHost("inner", "azureuser", 22, (KEY,), (KNOWN,))),
)


def cluster(name: str = "swc-a") -> Cluster:
    first = tuple(Node(f"rack07-n0{n}", "rack07", f"10.40.0.{n}", 22, str(n), vm_id=f"vm-{n}") for n in (1, 2))
    other = (Node("rack08-n01", "rack08", "10.40.1.1", 2022), Node("rack08-n02", "rack08", ""))
    return Cluster(name, (Rack("rack07", 7, 3, first), Rack("rack08", 8, 2, other), Rack("rack09", 9, 18)))


def program(name: str) -> str:
    """The real program, also from the environment the tests run in; a skip with its reason, in CI an error."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if found is None:
        if os.environ.get("CI") == "true":
            raise RuntimeError(f"{name} is missing")
        pytest.skip(f"no {name} on this machine")
    return found


def run(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Its stdin is nobody's: one that another program has set to non-blocking makes ansible give up."""
    return subprocess.run(
        [str(one) for one in words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, **more,
    )  # fmt: skip


def seen_by_ssh(text: str, folder: Path, host: str) -> dict[str, str]:
    file = folder / "ssh_config"
    file.write_text(text)
    done = run(program("ssh"), "-G", "-F", file, host)
    assert done.returncode == 0, done.stderr
    return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())


def seen_by_ansible(text: str, folder: Path) -> dict[str, Any]:
    file = folder / "hosts.yaml"
    file.write_text(text)
    done = run(program("ansible-inventory"), "-i", file, "--list", cwd=folder, env=ansible_environment(folder))
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def ansible_environment(folder: Path) -> dict[str, str]:
    mine = {"ANSIBLE_HOME": str(folder / "ansible"), "ANSIBLE_SSH_ARGS": "-o ControlMaster=no", "LC_ALL": "C.UTF-8"}
    return {**os.environ, **mine}


def test_a_hostfile_has_a_slot_for_each_gpu_and_no_node_without_address() -> None:
    assert hostfile(cluster(), 4).splitlines() == ["10.40.0.1 slots=4", "10.40.0.2 slots=4", "10.40.1.1 slots=4"]
    assert hostfile(Cluster("empty"), 4) == ""


def test_ssh_takes_every_host_of_the_config(tmp_path: Path) -> None:
    text = ssh_config(cluster(), Reach("azureuser", (KEY,), (KNOWN,), JUMPS), "made by a test")
    for name in ("rack07-n01", "swc-a-rack07-n01"):
        told = seen_by_ssh(text, tmp_path, name)
        assert (told["hostname"], told["user"], told["port"]) == ("10.40.0.1", "azureuser", "22")
        assert told["stricthostkeychecking"] in ("true", "yes")
        assert told["identityfile"] == str(KEY).replace("%", "%%")
        assert KNOWN.name in told["userknownhostsfile"] and "a b" in told["userknownhostsfile"]
        assert told["proxyjump"] == "swc-a-jump-1"
    assert seen_by_ssh(text, tmp_path, "rack07-n02")["proxyjump"] == "swc-a-jump-2-2"
    assert seen_by_ssh(text, tmp_path, "rack08-n01")["port"] == "2022"
    jump = seen_by_ssh(text, tmp_path, "swc-a-jump-1")
    assert (jump["hostname"], jump["user"], jump["port"]) == ("203.0.113.7", "ops", "2222")
    assert jump["stricthostkeychecking"] in ("true", "yes") and "proxyjump" not in jump
    inner = seen_by_ssh(text, tmp_path, "swc-a-jump-2-2")
    assert (inner["hostname"], inner["proxyjump"]) == ("inner", "swc-a-jump-2")
    assert "rack08-n02" not in [word for line in text.splitlines() if line.startswith("Host ") for word in line.split()]
    assert "# left out, no address: rack08-n02" in text and "# rack07 has 2 of 3 nodes" in text


def test_without_jump_hosts_nothing_of_the_user_is_jumped_through(tmp_path: Path) -> None:
    text = ssh_config(cluster(), Reach("azureuser", (), (KNOWN,)), "made by a test")
    (tmp_path / "mine").write_text(text + "\nHost *\n    ProxyJump elsewhere\n")
    told = seen_by_ssh((tmp_path / "mine").read_text(), tmp_path, "rack07-n01")
    assert told.get("proxyjump", "none") == "none"


def test_ansible_takes_the_inventory(tmp_path: Path) -> None:
    told = seen_by_ansible(
        ansible_inventory(cluster(), Reach("azureuser", (KEY,), (KNOWN,), JUMPS), "made by a test"), tmp_path
    )
    assert told["swc_a"]["children"] == ["rack07", "rack08", "rack09"]
    assert told["rack07"]["hosts"] == ["rack07-n01", "rack07-n02"]
    assert told["rack08"]["hosts"] == ["rack08-n01"]
    one = told["_meta"]["hostvars"]["rack07-n02"]
    assert (one["ansible_host"], one["ansible_port"], one["ansible_user"]) == ("10.40.0.2", 22, "azureuser")
    assert (one["ndctl_cluster"], one["ndctl_rack"], one["ndctl_position"]) == ("swc-a", "rack07", 2)
    assert (one["ndctl_vm_id"], one["ansible_ssh_private_key_file"]) == ("vm-2", str(KEY).replace("%", "%%"))
    words = shlex.split(one["ansible_ssh_common_args"])
    assert "StrictHostKeyChecking=yes" in words and f'UserKnownHostsFile="{KNOWN}"' in words
    [command] = [word.removeprefix("ProxyCommand=") for word in words if word.startswith("ProxyCommand=")]
    assert shlex.split(command)[-3:] == ["-W", "[%h]:%p", "inner"]
    assert "bastion" in command


@pytest.mark.parametrize("name", ["all", "rack07", "ungrouped"])
def test_a_cluster_with_a_name_that_ansible_or_a_rack_has(name: str, tmp_path: Path) -> None:
    told = seen_by_ansible(ansible_inventory(cluster(name), Reach("azureuser"), "made by a test"), tmp_path)
    assert told[f"cluster_{name}"]["children"] == ["rack07", "rack08", "rack09"]


@pytest.mark.xdist_group("openssh")
def test_ssh_and_ansible_get_through_a_jump_host_and_verify_both_keys(tmp_path: Path) -> None:
    ssh, ansible = program("ssh"), program("ansible")
    mine = tmp_path / "a b 100%"
    mine.mkdir()
    with sshd.start(tmp_path / "sshd", nodes=["127.78.1.1", "127.78.1.2"]) as server:
        key, keys = Path(shutil.copy(server.client_key, mine)), Path(shutil.copy(server.known_hosts, mine))
        node = Node("rack01-n01", "rack01", "127.78.1.2", server.port)
        lab = Cluster("lab", (Rack("rack01", 1, 1, (node,)),))
        for known, code in ((keys, 0), (mine / "empty", 255)):
            jump = JumpHost("127.78.1.1", server.user, server.port, (key,), (known,))
            reach = Reach(server.user, (key,), (keys,), ((jump,),))
            config = tmp_path / "ssh_config"
            config.write_text(ssh_config(lab, reach, "made by a test"))
            done = run(ssh, "-F", config, "-o", "BatchMode=yes", "rack01-n01", "echo through")
            assert (done.returncode, done.stdout) == (code, "" if code else "through\n"), done.stderr
            assert bool(code) == ("Host key verification failed" in done.stderr)
            hosts = tmp_path / "hosts.yaml"
            hosts.write_text(ansible_inventory(lab, reach, "made by a test"))
            done = run(
                ansible, "-i", hosts, "rack01", "-m", "raw", "-a", "echo through",
                cwd=tmp_path, env=ansible_environment(tmp_path),
            )  # fmt: skip
            assert (done.returncode == 0, "\nthrough\n" in done.stdout) == (not code, not code), done.stdout
