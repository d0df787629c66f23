"""The model itself: the same region every time, kept over a restart, one story on every node."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ndctl.model.errors import NdctlError
from ndctl.sim.faults import CATALOGUE, FaultBook
from ndctl.sim.world import VM, World


def add(world: World, index: int, rack: int | None = 1, **changes: str) -> VM:
    given = {
        "vmss": "v", "instance_id": str(index), "address": f"127.66.9.{index}", "admin_user": "u",
        "admin_key": "ssh-ed25519 A",
    } | changes  # fmt: skip
    return world.add_vm("lab", rack, index, **given)


def test_same_seed_same_region(tmp_path: Path) -> None:
    views = []
    for name in ("a", "b"):
        world = World(tmp_path / name, seed="s", clock=lambda: 1e9)
        views.append(repr(world.node(add(world, 1))))
    assert views[0] == views[1]
    other = World(tmp_path / "c", seed="t", clock=lambda: 1e9)
    assert other.node(add(other, 1)).gpus[0].serial not in views[0]


def test_a_restart_finds_the_region_again(tmp_path: Path) -> None:
    world = World(tmp_path, clock=lambda: 1e9)
    first, second = add(world, 1), add(world, 2)
    world.update(second, tags={"rack": "1"}, generation=2)
    world.remove_vm("v", "1")
    world.faults.add("gpu-missing", node="rack01-n02", gpu=1)

    again = World(tmp_path, clock=lambda: 2e9)

    assert [vm.hostname for vm in again.vms()] == ["rack01-n02"]
    assert again.vm("v", "2").tags == {"rack": "1"}
    assert again.vm("v", "2").host_public_keys == world.vm("v", "2").host_public_keys != second.host_public_keys
    assert again.vm_at(first.address) is None
    assert len(again.node(again.vm("v", "2")).live_gpus) == 3


def test_a_reboot_changes_the_boot_id_and_a_reimage_the_host_key_too(tmp_path: Path) -> None:
    world = World(tmp_path, clock=lambda: 1e9)
    vm = add(world, 1)
    rebooted = world.update(vm, boots=vm.boots + 1)
    reimaged = world.update(rebooted, generation=2)
    assert len({vm.boot_id, rebooted.boot_id, reimaged.boot_id}) == 3
    assert vm.host_public_keys == rebooted.host_public_keys != reimaged.host_public_keys
    serials = [gpu.serial for gpu in world.node(reimaged).gpus]
    moved = world.update(reimaged, host_salt=1)
    assert moved.physical_host != vm.physical_host
    assert not set(serials) & {gpu.serial for gpu in world.node(moved).gpus}


def test_an_address_belongs_to_one_vm(tmp_path: Path) -> None:
    world = World(tmp_path)
    add(world, 1)
    with pytest.raises(NdctlError, match="belongs to rack01-n01"):
        add(world, 2, address="127.66.9.1")


def test_threads_add_and_ask_side_by_side(tmp_path: Path) -> None:
    world = World(tmp_path)

    def both(index: int) -> int:
        return len(world.node(add(world, index)).gpus)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(both, range(1, 60))) == {4}
    assert len(world.vms()) == 59
    assert len(World(tmp_path).vms()) == 59


def test_a_rack_is_one_domain_and_two_racks_are_two(world: World) -> None:
    def domains(rack: int) -> set[tuple[str, int]]:
        mine = [world.node(vm) for vm in world.vms() if vm.rack == rack]
        return {(gpu.fabric.cluster_uuid, gpu.fabric.clique_id) for view in mine for gpu in view.gpus}

    assert len(domains(1)) == len(domains(2)) == 1
    assert domains(1) != domains(2)
    keys = {port.pkeys[0] for vm in world.vms() for port in world.node(vm).ports if port.infiniband}
    assert len(keys) == 1 and min(keys) & 0x8000 and min(keys) & 0x7FFF != 0x7FFF


def test_serials_and_guids_are_unique_and_some_nodes_have_an_ethernet_device(world: World) -> None:
    views = [world.node(vm) for vm in world.vms()]
    serials = [gpu.serial for view in views for gpu in view.gpus]
    guids = [port.node_guid for view in views for port in view.ports]
    assert len(set(serials)) == len(serials) == 144
    assert len(set(guids)) == len(guids)
    lids = [port.lid for view in views for port in view.ports if port.infiniband]
    assert len(set(lids)) == len(lids) == 144
    with_ethernet = [view for view in views if any(port.device == "mlx5_an0" for port in view.ports)]
    assert 0 < len(with_ethernet) < len(views)


class TestFaultBook:
    def test_every_kind_says_what_an_expert_would_find(self) -> None:
        for kind in CATALOGUE.values():
            assert kind.finds and kind.summary
            assert set(kind.required) | set(kind.defaults) <= set(kind.parameters)
            named = dict.fromkeys(kind.parameters, "x")
            assert kind.blames.format(**named)

    def test_an_unknown_kind_or_parameter_is_an_error_that_names_the_known(self, tmp_path: Path) -> None:
        book = FaultBook(tmp_path / "faults.json")
        with pytest.raises(NdctlError, match="no fault kind 'gpu-mising'") as unknown:
            book.add("gpu-mising", node="rack01-n01")
        assert "gpu-missing" in unknown.value.hint
        with pytest.raises(NdctlError, match="missing parameter 'node'"):
            book.add("gpu-missing", gpu=1)
        with pytest.raises(NdctlError, match="unknown parameter 'link'"):
            book.add("gpu-missing", node="rack01-n01", link=3)
        assert book.list() == []

    def test_defaults_types_and_blame(self, tmp_path: Path) -> None:
        book = FaultBook(tmp_path / "faults.json", clock=lambda: 7.0)
        fault = book.add("nvlink-down", node="rack01-n03", link="5")
        assert (fault["gpu"], fault["link"], fault.since) == (2, 5, 7.0)
        assert fault.blames == "rack01-n03 GPU 2 link 5"

    def test_another_process_sees_and_heals(self, tmp_path: Path) -> None:
        mine, theirs = FaultBook(tmp_path / "faults.json"), FaultBook(tmp_path / "faults.json")
        mine.add("gpu-missing", node="rack01-n01")
        mine.add("gpu-busy", node="rack01-n01")
        before = theirs.version
        assert [fault.kind for fault in theirs.list()] == ["gpu-missing", "gpu-busy"]
        assert theirs.version > before
        assert theirs.clear(kind="gpu-busy") == 1
        assert [fault.kind for fault in mine.list()] == ["gpu-missing"]
        assert mine.clear() == 1 and theirs.list() == []
