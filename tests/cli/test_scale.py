"""ndctl scale: out by deploy's own way, in only after everybody who could object was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ndctl.inventory.loader import load
from ndctl.inventory.rewrite import with_racks, write_racks
from ndctl.model.errors import NdctlError

if TYPE_CHECKING:
    from conftest import Region, Said

    Ndctl = Callable[..., Said]


def ours(region: Region, inventory: Path) -> set[str]:
    """Which racks are paid for."""
    group = yaml.safe_load(inventory.read_text())["resource_group"]
    ids = region.billable(group)
    return {one.rpartition("-")[2] for one in ids if "/interconnectblocks/" in one.lower()}


def commented(inventory: Path, racks: int) -> None:
    text = inventory.read_text()
    inventory.write_text(text.replace(f"racks: {racks}\n", f"racks:   {racks}   # as agreed in May\n"))


def test_out_and_in_with_the_inventory_rewritten(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory(racks=1)
    commented(inventory, 1)
    assert ndctl("deploy", inventory, "--yes").code == 0
    out = ndctl("scale", inventory, "--racks", 3, "--yes", "--write", "-o", "json")
    assert out.code == 0, out.err
    told = json.loads(out.out)
    assert (told["direction"], told["racks_before"], told["racks"], told["written"]) == ("out", 1, 3, True)
    assert [one["status"] for one in told["deploy"]["racks"]] == ["unchanged", "deployed", "deployed"]
    assert "racks:   3   # as agreed in May\n" in inventory.read_text()
    assert ndctl("plan", inventory, "--detailed-exitcode").code == 0
    again = ndctl("scale", inventory, "--racks", 3)
    assert (again.code, again.out) == (0, "rack01-rack03  unchanged\n3 racks as planned\n")

    refused = ndctl("scale", inventory, "--racks", 1)
    assert refused.code == 2 and "--yes" in refused.err
    assert ours(region, inventory) == {"rack01", "rack02", "rack03"}
    requests = len(region.requests())
    less = ndctl("scale", inventory, "--racks", 1, "--yes", "--write")
    assert less.code == 0, less.err
    assert "2 racks go, 36 VMs" in less.err
    assert "rack02  18 VMs: virtualMachineScaleSets/" in less.err and "interconnectBlocks/" in less.err
    assert ours(region, inventory) == {"rack01"}
    assert "racks:   1   # as agreed in May\n" in inventory.read_text()
    deleted = [one["path"] for one in region.requests()[requests:] if one["method"] == "DELETE"]
    assert len(deleted) == 4 and not [path for path in deleted if "rack01" in path]
    kinds = ["virtualmachinescalesets" in path.lower() for path in deleted]
    assert kinds == [True, True, False, False]  # a block goes after the machines in it
    assert "scale by" in ndctl("status", inventory).out


def test_racks_in_use_stay_unless_forced(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory(racks=2)
    assert ndctl("deploy", inventory, "--yes").code == 0
    region.faults.add("slurm-allocated", node="rack02-n05")
    region.faults.add("slurm-drained", node="rack02-n06")
    said = ndctl("scale", inventory, "--racks", 1, "--yes", "--write")
    assert said.code == 4
    assert "rack02-n05" in said.err and "rack02-n06" not in said.err and "--force" in said.err
    assert ours(region, inventory) == {"rack01", "rack02"} and "racks: 2" in inventory.read_text()
    region.faults.clear()
    region.faults.add("slurm-away", node="rack02-n07")
    unknown = ndctl("scale", inventory, "--racks", 1, "--yes")
    assert unknown.code == 4 and "rack02-n07" in unknown.err
    forced = ndctl("scale", inventory, "--racks", 1, "--yes", "--force")
    assert forced.code == 0 and ours(region, inventory) == {"rack01"}
    assert "still says racks: 2; --write changes it" in forced.err


def test_what_stands_counts_and_not_what_the_file_says(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory(racks=1)
    first = json.loads(ndctl("scale", inventory, "--racks", 1, "--yes", "-o", "json").out)
    assert (first["direction"], first["racks_before"]) == ("out", 0)
    region.change(inventory, racks=2)
    told = json.loads(ndctl("scale", inventory, "--racks", 1, "--yes", "-o", "json").out)
    assert (told["direction"], told["racks_before"], told["racks"], told["racks_in_inventory"]) == ("none", 1, 1, 2)
    assert ndctl("scale", inventory, "--racks", 2, "--yes").code == 0
    less = ndctl("scale", inventory, "--racks", 1, "--yes", "-o", "json")
    assert (json.loads(less.out)["direction"], json.loads(less.out)["racks_before"]) == ("in", 2)
    assert ": 1 rack goes, 18 VMs:" in less.err


def test_protected_clusters_grow_and_do_not_shrink(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory(racks=1, protect=True)
    assert ndctl("deploy", inventory, "--yes").code == 0
    assert ndctl("scale", inventory, "--racks", 2, "--yes").code == 0
    said = ndctl("scale", inventory, "--racks", 1, "--yes", "--force")
    assert said.code == 4 and "protect: true" in said.err
    assert ours(region, inventory) == {"rack01", "rack02"}


def test_a_rack_without_capacity_and_what_goes_on_with_it(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory(racks=1)
    assert ndctl("deploy", inventory, "--yes").code == 0
    region.faults.add("allocation-failure", rack=2)
    said = ndctl("scale", inventory, "--racks", 2, "--yes")
    assert said.code == 6
    assert f"ndctl scale {inventory} --racks 2 again later" in said.out and "ndctl deploy" not in said.out
    region.faults.clear()
    assert ndctl("scale", inventory, "--racks", 2, "--yes").code == 0
    assert ours(region, inventory) == {"rack01", "rack02"}


def test_what_cannot_be(region: Region, ndctl: Ndctl, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text("cluster: lab\nprofile: gb300\nstatic:\n- {rack: 7, nodes: 'gpu[01-03]'}\n")
    assert ndctl("scale", tmp_path / "lab.yaml", "--racks", 2).code == 2
    inventory = region.inventory()
    assert ndctl("scale", inventory, "--racks", 0).code == 2
    small = region.inventory(network={"create": "10.1.0.0/24"})
    too_many = ndctl("scale", small, "--racks", 1400)
    assert too_many.code == 2 and "10.1.0.0/24 has room for" in too_many.err
    assert "racks: 1\n" in small.read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("racks: 64  # x\n", "racks: 9  # x\n"),
        ("racks:    64\r\n", "racks:    9\r\n"),
        ("{racks: 64, ", "{racks: 9, "),
    ],
)
def test_the_file_is_changed_in_one_number(tmp_path: Path, before: str, after: str) -> None:
    rest = (
        'cluster: swc-a\nregion: swedencentral\nzone: "1"\nsubscription: 00000000-0000-0000-0000-000000000000\n'
        "resource_group: rg\nvm_size: Standard_ND128isr_GB300_v6\nnetwork: {create: 10.40.0.0/16}\n"
    )
    if before.startswith("{"):
        rest = ", ".join(rest.strip().split("\n")) + "}\n"
    text = before + rest
    file = tmp_path / "swc-a.yaml"
    file.write_bytes(text.encode())
    file.chmod(0o640)
    loaded: Any = load(file)
    assert with_racks(loaded, 9).inventory.racks == 9 and file.read_bytes() == text.encode()
    write_racks(loaded, 9)
    assert file.read_bytes() == text.replace(before, after).encode()
    assert load(file).inventory.racks == 9 and file.stat().st_mode & 0o777 == 0o640
    # Somebody else changed the file meanwhile: it is not overwritten.
    with pytest.raises(NdctlError, match="not written as a plain number"):
        write_racks(loaded, 12)
