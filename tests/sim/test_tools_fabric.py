"""Faults of InfiniBand ports, rails, IMEX and NVLink, as the node's own files and tools show them."""

from __future__ import annotations

from collections.abc import Callable

from ndctl.sim.nodes import sysroot
from ndctl.sim.tools import nvlink
from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import World
from tests.sim.conftest import NOON

Run = Callable[..., Answer]


def files(world: World, node: str) -> dict[str, str | bytes]:
    vm = world.named(node)
    assert vm is not None
    return dict(sysroot.files(world.node(vm), NOON))


def port(world: World, node: str, device: str, file: str) -> str:
    return str(files(world, node)[f"sys/class/infiniband/{device}/{file}"]).strip()


def test_ports_train_at_boot_as_the_kernel_tells_since_6_15(world: World, run: Run) -> None:
    lines = [line for line in run("rack01-n01", "dmesg").out.splitlines() if " mlx5_ib2: " in line]
    assert [line.partition("mlx5_core ")[2] for line in lines] == [
        "0103:00:00.0 mlx5_ib2: Port: 1 Link INIT",
        "0103:00:00.0 mlx5_ib2: Port: 1 Link ACTIVE",
    ]


def test_flaps_are_in_the_log_long_after_boot_and_in_the_counts(world: World, run: Run) -> None:
    world.faults.add("port-flaps", node="rack01-n03", port="mlx5_ib2", times=4)
    out = run("rack01-n03", "journalctl", "-k", "-b").out
    assert out.count("mlx5_ib2: Port: 1 Link DOWN") == 4 and out.count("Link DOWN") == 4
    assert port(world, "rack01-n03", "mlx5_ib2", "device/net/ib2/carrier_changes") == "10"
    assert port(world, "rack01-n03", "mlx5_ib2", "ports/1/counters/link_downed") == "4"
    assert port(world, "rack01-n03", "mlx5_ib2", "ports/1/state") == "4: ACTIVE"
    assert "Link DOWN" not in run("rack01-n04", "journalctl", "-k", "-b").out


def test_rates_name_the_lanes_they_come_from(world: World) -> None:
    world.faults.add("port-narrow", node="rack01-n03", port="mlx5_ib3")
    assert port(world, "rack01-n03", "mlx5_ib3", "ports/1/rate") == "400 Gb/sec (2X XDR)"
    assert port(world, "rack01-n03", "mlx5_ib0", "ports/1/rate") == "800 Gb/sec (4X XDR)"


def test_addresses_and_places(world: World) -> None:
    world.faults.add("lid-zero", node="rack01-n03", port="mlx5_ib1")
    world.faults.add("rail-map-differs", node="rack01-n04")
    assert port(world, "rack01-n03", "mlx5_ib1", "ports/1/lid") == "0x0"
    assert port(world, "rack01-n04", "mlx5_ib0", "device/numa_node") == "1"
    assert "PCI_SLOT_NAME=0104:00:00.0" in port(world, "rack01-n04", "mlx5_ib0", "device/uevent")
    lids = [
        port(world, f"rack01-n{number:02d}", device, "ports/1/lid")
        for number in range(1, 19)
        for device in ("mlx5_ib0", "mlx5_ib1", "mlx5_ib2", "mlx5_ib3")
        if (number, device) != (3, "mlx5_ib1")
    ]
    assert len(set(lids)) == len(lids)


def test_the_kind_of_the_driver(world: World) -> None:
    world.faults.add("gpudirect-missing", node="rack01-n03")
    assert "NVIDIA UNIX aarch64 Kernel Module" in str(files(world, "rack01-n03")["proc/driver/nvidia/version"])
    assert "UNIX Open Kernel Module for aarch64" in str(files(world, "rack01-n04")["proc/driver/nvidia/version"])


def test_imex_versions_and_lists(world: World, run: Run) -> None:
    world.faults.add("imex-version", node="rack01-n09", version="580.95.05")
    world.faults.add("imex-list-drift", node="rack01-n02")
    text = run("rack01-n01", "nvidia-imex-ctl", "-N").out
    assert text.count("Version: 580.95.05") == 1 and "Domain State: UP" in text
    path = "etc/nvidia-imex/nodes_config.cfg"
    assert str(files(world, "rack01-n02")[path]).splitlines() == str(files(world, "rack01-n01")[path]).splitlines()[:17]


def test_a_link_that_recovers_counts_on(world: World, run: Run) -> None:
    world.faults.add("nvlink-recovers", node="rack01-n09", gpu=2, link=14, per_second=60)
    vm = world.named("rack01-n09")
    assert vm is not None
    first, later = (nvlink.answer(world.node(vm), ["-e"], NOON + after) for after in (0.0, 2.0))
    changed = [
        (one.strip(), two.strip())
        for one, two in zip(first.out.splitlines(), later.out.splitlines(), strict=True)
        if one != two
    ]
    assert changed == [
        ("Link 14: Link recovery successful events: 0", "Link 14: Link recovery successful events: 120"),
        ("Link 14: Total link recovery events: 0", "Link 14: Total link recovery events: 120"),
    ]
    assert not later.keep and nvlink.answer(world.node(world.vms()[0]), ["-e"], NOON).keep


def test_a_fabric_that_settles_and_a_fabric_manager_that_should_not_be(world: World, run: Run) -> None:
    world.faults.add("fabric-settling", node="rack01-n03")
    world.faults.add("fabric-manager-active", node="rack01-n04")
    assert run("rack01-n03", "nvidia-smi", "-q").out.count("In Progress") == 4
    assert run("rack01-n04", "systemctl", "is-active", "nvidia-fabricmanager").out == "active\n"
    assert run("rack01-n03", "systemctl", "is-active", "nvidia-fabricmanager").out == "inactive\n"
