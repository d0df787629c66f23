"""ndctl render --diff: a revision of the inventory against the work tree, offline, nothing written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ndctl.render import build, engine
from ndctl.workflow import revision as revisions

if TYPE_CHECKING:
    from conftest import Said

    Ndctl = Callable[..., Said]

INVENTORY = """\
cluster: swc-a
region: swedencentral
zone: "1"
subscription: 00000000-0000-0000-0000-000000000000
resource_group: rg-swc-a
racks: 3
vm_size: Standard_ND128isr_GB300_v6
image: microsoft-dsvm:ubuntu-hpc:2404-gb:1.0.0
network: {create: 10.40.0.0/16, admin_from: [203.0.113.0/24]}
ssh: {public_key: ./id.pub, jump: [created]}
tags: {owner: fabric}
"""


def git(folder: Path, *words: str) -> str:
    """As somebody, with no configuration of the machine's own."""
    if shutil.which("git") is None:
        if os.environ.get("CI") == "true":
            raise RuntimeError("git is missing")
        pytest.skip("no git on this machine")
    person = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *person, *words], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "a repository"
    (folder / "inventories").mkdir(parents=True)
    git(folder, "init", "-q", ".")
    (folder / "inventories" / "swc-a.yaml").write_text(INVENTORY)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def change(repository: Path, old: str, new: str) -> Path:
    file = repository / "inventories" / "swc-a.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file


def test_nothing_changed(repository: Path, ndctl: Ndctl) -> None:
    said = ndctl("render", change(repository, "racks: 3", "racks: 3  # three"), "--diff", "HEAD", "--detailed-exitcode")
    assert said.code == 0 and "renders as it did in HEAD" in said.out


def test_racks_that_change_alike_are_shown_once_with_what_it_comes_to(repository: Path, ndctl: Ndctl) -> None:
    change(repository, "2404-gb:1.0.0", "2404-gb:2.0.0")
    file = change(repository, "racks: 3", "racks: 4")
    before = sorted(repository.rglob("*"))
    said = ndctl("render", file, "--diff", "HEAD", "--detailed-exitcode")
    assert said.code == 9
    assert said.out.count("rack[01-03]  changed\n") == 1
    assert '-              "version": "1.0.0"\n+              "version": "2.0.0"\n' in said.out
    assert (
        "needs reimage  virtualMachineScaleSets/swc-a-rack01 properties.virtualMachineProfile.storageProfile"
        in said.out
    )
    assert "rack04  is new: ndctl deploy would create\n+ interconnectBlocks/swc-a-rack04\n" in said.out
    assert "foundation" not in said.out
    assert sorted(path for path in repository.rglob("*") if ".git" not in path.parts) == [
        path for path in before if ".git" not in path.parts
    ]
    assert ndctl("render", file, "--diff", "HEAD").code == 0


def test_what_replaces_and_what_stays_behind(repository: Path, ndctl: Ndctl) -> None:
    change(repository, 'zone: "1"', 'zone: "2"')
    file = change(repository, "racks: 3", "racks: 2")
    said = ndctl("render", file, "--diff", "HEAD")
    assert (
        "replaces       virtualMachineScaleSets/swc-a-rack01 zones.0   (Uniform scale sets keep their zone)" in said.out
    )
    assert "replaces       interconnectBlocks/swc-a-rack01 zones.0" in said.out
    assert "rack03  is no longer asked for: ndctl deploy leaves it as it is" in said.out


def test_a_new_port_is_told_as_cloud_init_and_not_as_base64(repository: Path, ndctl: Ndctl) -> None:
    said = ndctl("render", change(repository, "ssh: {", "ssh: {port: 2222, "), "--diff", "HEAD")
    assert "cloud-init of every node  changed" in said.out
    assert "(of cloud-init)" in said.out and max(map(len, said.out.splitlines())) < 400
    assert (
        "needs reimage  virtualMachineScaleSets/swc-a-rack01 properties.virtualMachineProfile.osProfile.customData"
        in (said.out)
    )
    assert "in place       networkSecurityGroups/swc-a-nsg properties.securityRules.allow-ssh-from-admin" in said.out


def test_templates_of_the_same_repository_are_those_of_the_revision(
    repository: Path, ndctl: Ndctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = repository / "templates"
    shutil.copytree(engine.templates_folder(), ours)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "templates")
    rack = ours / "rack.json.j2"
    rack.write_text(rack.read_text().replace('"overprovision": false', '"overprovision": true'))
    monkeypatch.setattr(revisions, "templates_folder", lambda: ours)
    monkeypatch.setattr(build, "_environment", lambda: engine.environment(ours))
    said = ndctl("render", repository / "inventories" / "swc-a.yaml", "--diff", "HEAD")
    assert "in place       virtualMachineScaleSets/swc-a-rack01 properties.overprovision" in said.out
    assert "rack[01-03]  changed" in said.out


@pytest.mark.parametrize("revision", ["nowhere", "HEAD~7", "--all", "-n1", ""])
def test_a_revision_that_there_is_not(repository: Path, ndctl: Ndctl, revision: str) -> None:
    said = ndctl("render", repository / "inventories" / "swc-a.yaml", f"--diff={revision}")
    assert said.code == 2 and "there is no revision" in said.err


def test_an_inventory_that_was_not_there_yet_or_was_no_inventory(repository: Path, ndctl: Ndctl) -> None:
    new = repository / "inventories" / "new.yaml"
    new.write_text(INVENTORY)
    absent = ndctl("render", new, "--diff", "HEAD")
    assert absent.code == 2 and "new.yaml is not in revision HEAD" in absent.err
    new.write_text("rack: 3\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "broken")
    new.write_text(INVENTORY)
    broken = ndctl("render", new, "--diff", "HEAD")
    assert broken.code == 2 and "is no inventory of this version of ndctl: unknown key 'rack'" in broken.err


def test_no_repository_no_git_and_a_folder_to_write_to(
    repository: Path, ndctl: Ndctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loose.yaml").write_text(INVENTORY)
    said = ndctl("render", tmp_path / "loose.yaml", "--diff", "HEAD")
    assert said.code == 2 and "is in no git repository" in said.err
    file = repository / "inventories" / "swc-a.yaml"
    assert ndctl("render", file, "--diff", "HEAD", "-o", "out").code == 2
    assert ndctl("render", repository / "absent.yaml", "--diff", "HEAD").code == 2
    monkeypatch.setenv("PATH", str(tmp_path))
    said = ndctl("render", file, "--diff", "HEAD")
    assert said.code == 2 and "there is no git" in said.err
