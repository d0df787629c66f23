"""Where state is kept."""

import errno
import os
import stat
from pathlib import Path

import pytest

from ndctl.inventory.schema import Inventory
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.state_dir import cluster_dir, state_root, write_private

AZURE = {
    "cluster": "swc-a",
    "subscription": "00000000-0000-0000-0000-000000000000",
    "resource_group": "rg-a",
    "region": "swedencentral",
    "racks": 1,
    "vm_size": "Standard_ND128isr_GB300_v6",
    "network": {"create": "10.40.0.0/16"},
}


def test_root_by_environment() -> None:
    assert state_root({"NDCTL_STATE_DIR": "/a/b"}) == Path("/a/b")
    assert state_root({"XDG_STATE_HOME": "/x"}) == Path("/x/ndctl")
    assert state_root({}) == Path.home() / ".local/state/ndctl"


def test_one_folder_per_cluster_wherever_its_inventory_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path))
    inventory = Inventory.model_validate(AZURE)
    folder = cluster_dir(inventory, Path("a.yaml"))
    assert folder == cluster_dir(inventory, Path("/elsewhere/b.yaml"))
    assert folder.name.startswith("swc-a-") and stat.S_IMODE(folder.stat().st_mode) == 0o700
    other = Inventory.model_validate({**AZURE, "resource_group": "rg-b"})
    assert cluster_dir(other, Path("a.yaml")) != folder


def test_private_files_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new\n")
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["known_hosts"]


def test_a_state_directory_that_cannot_be_is_told_and_not_an_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(NdctlError, match=r"cannot keep .*/swc-a-.*: Not a directory") as caught:
        cluster_dir(Inventory.model_validate(AZURE), Path("a.yaml"))
    assert caught.value.exit_code is ExitCode.USAGE
    assert str(tmp_path / "file") in caught.value.hint


def test_a_full_disk_is_told_and_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "nodes.json").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NdctlError, match=r"cannot keep .*nodes.json: No space left on device"):
        write_private(tmp_path / "nodes.json", "new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("nodes.json", "old")]
