"""The way to the nodes as an inventory and the user's own files say it, and what of those files is passed over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ndctl.inventory.loader import Loaded, load
from ndctl.model.events import Event
from ndctl.workflow.transport import remarks_told, ssh_settings
from tests.ssh import sshd

_STATIC = "static:\n  - {rack: 1, nodes: [10.0.0.1]}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "home/.ssh").mkdir(parents=True)
    return tmp_path / "home"


def inventory(folder: Path, ssh: str, racks: str = _STATIC) -> Loaded:
    path = folder / "lab.yaml"
    path.write_text(f"cluster: lab\nprofile: gb300\nssh: {ssh}\n{racks}")
    return load(path)


def test_what_the_inventory_says_itself_is_pinned(tmp_path: Path, home: Path) -> None:
    assert ssh_settings(inventory(tmp_path, "{}"), 64).pinned == set()
    told = inventory(tmp_path, "{user: ann, port: 2222, private_key: k, known_hosts: h}")
    assert ssh_settings(told, 64).pinned == {"user", "port", "private_keys", "known_hosts"}


def test_a_deployment_is_reached_as_it_was_made(tmp_path: Path, home: Path) -> None:
    made = (
        "subscription: 00000000-0000-0000-0000-000000000000\nresource_group: rg\nregion: swedencentral\nzone: '1'\n"
        "racks: 1\nvm_size: Standard_ND128isr_GB300_v6\nimage: microsoft-dsvm:ubuntu-hpc:2404-gb:1.0.0\n"
        "network: {create: 10.40.0.0/16, admin_from: [203.0.113.0/24]}\n"
    )
    path = tmp_path / "made.yaml"
    path.write_text(f"cluster: made\n{made}ssh: {{jump: [door]}}\n")
    settings = ssh_settings(load(path), 64)
    assert settings.pinned == {"user", "port", "known_hosts"}
    assert settings.hop_known_hosts[0] == home / ".ssh/known_hosts"


def test_remarks_are_told_once_each(tmp_path: Path) -> None:
    class Growing:
        remarks: tuple[str, ...] = ("first",)

    growing = Growing()
    events: list[Event] = []
    with remarks_told(growing, "lab", events.append):
        growing.remarks = ("first", "second")
    assert [(event.message, event.aside) for event in events] == [("first", True), ("second", True)]
    with remarks_told(object(), "lab", events.append):
        assert len(events) == 2


VALIDATE = (["validate"], ["--level=quick", "--only=host"])
EXEC = (["exec"], ["--", "true"])


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("verb", [VALIDATE, EXEC])
def test_what_is_passed_over_is_said_at_v_only(
    tmp_path: Path, home: Path, verb: tuple[list[str], list[str]], verbose: bool
) -> None:
    (home / ".ssh/config").write_text("Host *\n  ForwardAgent yes\n  ConnectTimeout 9\nMatch exec true\n  User x\n")
    with sshd.start(tmp_path / "sshd", nodes=2) as server:
        (server.folder / "known_hosts").write_text(server.known_hosts.read_text() + "broken line\n")
        racks = f"static:\n  - {{rack: 1, nodes: [{', '.join(node.address for node in server.nodes)}]}}\n"
        ssh = f"{{user: {server.user}, port: {server.port}, private_key: {server.client_key}, "
        loaded = inventory(tmp_path, f"{ssh} known_hosts: {server.known_hosts}}}", racks)
        options = ["-v"] if verbose else []
        done = subprocess.run(
            [sys.executable, "-m", "ndctl", *options, *verb[0], str(loaded.path), *verb[1]],
            env={**os.environ, "HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    wanted = [
        f"lab  ssh_config: ignored {home}/.ssh/config:2 ForwardAgent",
        f"lab  ssh_config: ignored {home}/.ssh/config:4 Match exec true (its whole block: exec is not followed)",
        f"lab  known_hosts: {server.known_hosts}:3 too few fields",
    ]
    assert [line for line in done.stderr.splitlines() if "ssh_config" in line or "known_hosts" in line] == (
        wanted if verbose else []
    ), done.stderr
    assert "ssh_config" not in done.stdout
