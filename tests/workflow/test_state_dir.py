"""Where state is kept."""

import stat
from pathlib import Path

import pytest

from ndctl.inventory.schema import Inventory
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
