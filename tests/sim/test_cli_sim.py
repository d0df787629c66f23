"""ndctl sim as people type it: up, status, fault, down; several side by side; a crash; what is not ours stays."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ndctl.sim.state import SimDirectory
from tests.sim.arm_clients import golden_key, identity, open_region, template

Ndctl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ndctl(tmp_path: Path) -> Iterator[Ndctl]:
    """Run ndctl in an empty folder; whatever region is left is ended."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ndctl", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
        )

    yield run
    for marker in list(tmp_path.rglob(".ndctl-sim")):
        run("sim", "down", "--dir", str(marker.parent))


def up(ndctl: Ndctl, *arguments: str) -> subprocess.CompletedProcess[str]:
    result = ndctl("sim", "up", "--port", "0", "--ssh-port", "0", *arguments)
    assert result.returncode == 0, result.stderr
    return result


def status(ndctl: Ndctl, *arguments: str) -> Any:
    return json.loads(ndctl("sim", "status", "-o", "json", *arguments).stdout)


def wait_until(what: Callable[[], bool], seconds: float = 20) -> None:
    limit = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_up_says_where_and_what_next_and_down_leaves_nothing(ndctl: Ndctl, tmp_path: Path) -> None:
    said = up(ndctl).stdout
    assert "next: ndctl plan .ndctl/sim/inventory.yaml" in said
    told = status(ndctl)
    assert told["state"] == "running" and told["endpoint"] in said
    inventory = yaml.safe_load((tmp_path / ".ndctl/sim/inventory.yaml").read_text())
    assert inventory["cloud"]["endpoint"] == told["endpoint"] and inventory["ssh"]["port"] == told["ssh_port"]
    lint = ndctl("inventory", "lint", ".ndctl/sim/inventory.yaml")
    assert lint.returncode == 0, lint.stderr

    assert ndctl("sim", "down").returncode == 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(told["endpoint"].rpartition(":")[2])), timeout=10)
    assert status(ndctl)["state"] == "none"


def test_state_outlives_a_crash_and_another_start(ndctl: Ndctl, tmp_path: Path) -> None:
    up(ndctl)
    told, directory = status(ndctl), tmp_path / ".ndctl/sim"
    region = open_region(directory, told["endpoint"], told["ssh_port"])
    region.deploy(region.group("rg-kept"), "d", template(identity("kept")))
    ca = (directory / "ca.pem").read_text()

    os.kill(told["pid"], signal.SIGKILL)
    wait_until(lambda: not SimDirectory(directory).alive())
    crashed = ndctl("sim", "status")
    assert "crashed" in crashed.stdout and "ndctl sim up" in crashed.stdout

    up(ndctl)
    told = status(ndctl)
    region = open_region(directory, told["endpoint"], told["ssh_port"])
    assert [one.name for one in region.resources.resources.list_by_resource_group("rg-kept")] == ["kept"]
    assert (directory / "ca.pem").read_text() == ca
    os.kill(told["pid"], signal.SIGKILL)
    wait_until(lambda: not SimDirectory(directory).alive())
    assert ndctl("sim", "down").returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_two_regions_stand_side_by_side(ndctl: Ndctl, tmp_path: Path) -> None:
    up(ndctl, "--dir", "a")
    up(ndctl, "--dir", "b")
    a, b = status(ndctl, "--dir", "a"), status(ndctl, "--dir", "b")
    assert a["endpoint"] != b["endpoint"] and a["ssh_port"] != b["ssh_port"]
    second = ndctl("sim", "up", "--dir", "a", "--port", "0", "--ssh-port", "0")
    assert second.returncode == 2 and "running" in second.stderr and a["endpoint"] in second.stderr
    assert ndctl("sim", "down", "--dir", "a").returncode == 0
    assert status(ndctl, "--dir", "b")["state"] == "running"
    assert not (tmp_path / "a").exists()


def test_a_directory_that_is_not_a_regions_is_left_alone(ndctl: Ndctl, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    for verb in (("sim", "down"), ("sim", "up", "--port", "0"), ("sim", "fault", "list")):
        result = ndctl(*verb, "--dir", "mine")
        assert result.returncode == 2 and "mine" in result.stderr
    assert (tmp_path / "mine/thesis.txt").read_text() == "years of work"
    assert [one.name for one in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_an_empty_directory_of_ones_own_stays_empty(ndctl: Ndctl, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    up(ndctl, "--dir", "given")
    assert ndctl("sim", "down", "--dir", "given").returncode == 0
    assert list((tmp_path / "given").iterdir()) == []


def test_a_taken_port_is_told_and_nothing_stays_running(ndctl: Ndctl, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        result = ndctl("sim", "up", "--port", str(port), "--ssh-port", "0")
    assert result.returncode == 2 and str(port) in result.stderr and "--port 0" not in result.stdout
    assert not SimDirectory(tmp_path / ".ndctl/sim").alive()


def test_faults_are_planted_listed_and_healed(ndctl: Ndctl) -> None:
    up(ndctl)
    planted = ndctl("sim", "fault", "add", "nvlink-down", "--node", "rack01-n03", "--gpu", "1", "--link", "7")
    assert planted.returncode == 0 and "rack01-n03 GPU 1 link 7" in planted.stdout
    assert ndctl("sim", "fault", "add", "half-allocated", "--rack", "2", "--set", "count=15").returncode == 0
    told = json.loads(ndctl("sim", "fault", "list", "-o", "json").stdout)["faults"]
    assert [one["kind"] for one in told] == ["nvlink-down", "half-allocated"]
    assert told[1]["where"] == {"rack": 2, "count": 15}
    assert "1 healed" in ndctl("sim", "fault", "clear", "nvlink-down").stdout
    assert "1 healed" in ndctl("sim", "fault", "clear", "--id", "2").stdout
    assert "no fault" in ndctl("sim", "fault", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no-such-kind",), "nvlink-down"),
        (("nvlink-down",), "missing parameter 'node'"),
        (("nvlink-down", "--node", "rack01-n01", "--rack", "1"), "unknown parameter 'rack'"),
        (("half-allocated", "--rack", "1", "--set", "count"), "NAME=VALUE"),
        (("half-allocated", "--rack", "1", "--set", "count=many"), "half-allocated"),
    ],
)
def test_wrong_faults_are_refused(ndctl: Ndctl, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    SimDirectory(tmp_path / ".ndctl/sim").claim()
    result = ndctl("sim", "fault", "add", *arguments)
    assert result.returncode == 2, result.stderr
    assert said in result.stderr
    assert "no fault" in ndctl("sim", "fault", "list").stdout


def test_kinds_come_from_the_catalogue(ndctl: Ndctl) -> None:
    from ndctl.sim.faults import CATALOGUE

    said = ndctl("sim", "fault", "kinds").stdout
    assert [line.partition(":")[0] for line in said.splitlines() if re.match(r"\S", line)] == list(CATALOGUE)


def test_foreground_stays_until_interrupted(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ndctl", "sim", "up", "--foreground", "--port", "0", "--ssh-port", "0", "--dir", "here"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
    )
    directory = SimDirectory(tmp_path / "here")
    try:
        wait_until(lambda: directory.running() is not None)
        process.send_signal(signal.SIGINT)
        _, story = process.communicate(timeout=20)
        assert process.returncode == 0, story
    finally:
        process.kill()
    assert not directory.alive() and directory.running() is None
    directory.remove()


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ndctl.model.errors import NdctlError
    from ndctl.sim.control import prepare

    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "asyncssh" else known(name))
    with pytest.raises(NdctlError) as caught:
        prepare(SimDirectory(tmp_path / "sim"), {})
    assert (
        "asyncssh" in caught.value.message
        and caught.value.hint == "install ndctl with its extra 'sim', from where ndctl came: pip install '.[sim]'"
    )
    assert not (tmp_path / "sim").exists()


def test_the_whole_region_is_ready_for_the_rendered_key(ndctl: Ndctl, tmp_path: Path) -> None:
    """The key pair that lies in the directory is one that Azure would take."""
    up(ndctl)
    public = (tmp_path / ".ndctl/sim/id_ed25519.pub").read_text().split()
    assert public[0] == golden_key().split()[0] == "ssh-ed25519"
    derived = subprocess.run(
        [sys.executable, "-c", "import sys, paramiko; print(paramiko.Ed25519Key.from_private_key_file(sys.argv[1])"
         ".get_base64())", str(tmp_path / ".ndctl/sim/id_ed25519")],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout.strip()  # fmt: skip
    assert derived == public[1]
