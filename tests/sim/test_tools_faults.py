"""Each planted fault, seen by the tools an expert would ask, and by no other."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import World

Run = Callable[..., Answer]
ALL = [f"rack01-n{index:02d}" for index in range(1, 19)]


def links(run: Run, node: str) -> list[str]:
    return [line for line in run(node, "nvidia-smi", "nvlink", "-s").out.splitlines() if "Link" in line]


def kernel(run: Run, node: str) -> list[str]:
    return [line for line in run(node, "dmesg").out.splitlines() if "Xid" in line]


def test_nvlink_down_is_one_root_and_71_sympathetic(world: World, run: Run) -> None:
    world.faults.add("nvlink-down", node="rack01-n11", gpu=2, link=8)
    assert [line for line in links(run, "rack01-n11") if "GB/s" not in line] == ["\t Link 8: <inactive>"]
    logs = {node: kernel(run, node) for node in ALL}
    roots = [(node, line) for node, lines in logs.items() for line in lines if ": 149," in line]
    assert len(roots) == 1 and roots[0][0] == "rack01-n11" and "(PCI:0018:01:00)" in roots[0][1]
    assert sum(": 145," in line for lines in logs.values() for line in lines) == 71
    assert all("Nonfatal" in line for lines in logs.values() for line in lines if ": 145," in line)
    assert not any(kernel(run, f"rack02-n{index:02d}") for index in range(1, 19))
    assert "Drain and Reset" in run("rack01-n11", "nvidia-smi", "-q").out


def test_gpu_missing_is_on_the_bus_and_not_in_the_driver(world: World, run: Run) -> None:
    world.faults.add("gpu-missing", node="rack01-n03", gpu=1)
    assert run("rack01-n03", "nvidia-smi", "-L").out.count("GPU ") == 3
    assert run("rack01-n03", "lspci", "-n", "-d", "10de:").out.count("10de:") == 4
    assert any(
        ": 79, GPU has fallen off the bus" in line and "0009:01:00" in line for line in kernel(run, "rack01-n03")
    )
    assert run("rack01-n04", "nvidia-smi", "-L").out.count("GPU ") == 4


def test_ports(world: World, run: Run) -> None:
    world.faults.add("port-half-rate", node="rack01-n01", port="mlx5_ib2")
    world.faults.add("port-down", node="rack01-n02", port="mlx5_ib0")
    status = run("rack01-n01", "ibstatus", "mlx5_ib2").out
    assert "400 Gb/sec (4X NDR)" in status and "4: ACTIVE" in status and "5: LinkUp" in status
    assert "800 Gb/sec (4X XDR)" in run("rack01-n01", "ibstatus", "mlx5_ib1").out
    down = run("rack01-n02", "ibstatus", "mlx5_ib0").out
    assert "1: DOWN" in down and "2: Polling" in down
    assert run("rack01-n02", "ibstatus").out.count("4: ACTIVE") >= 3


def test_imex_peer_missing_is_seen_by_its_peers_and_not_by_itself(world: World, run: Run) -> None:
    world.faults.add("imex-peer-missing", node="rack01-n07")
    own = run("rack01-n07", "nvidia-imex-ctl", "-N", "-j")
    assert own.code != 0 and own.out == ""
    assert run("rack01-n07", "systemctl", "is-active", "nvidia-imex").out == "inactive\n"
    seen = json.loads(run("rack01-n01", "nvidia-imex-ctl", "-N", "-j").out)
    assert seen["status"] == "DEGRADED" and seen["nodes"]["6"]["status"] == "UNAVAILABLE"
    assert {c["status"] for c in seen["nodes"]["6"]["connections"].values()} == {"INVALID"}
    assert seen["nodes"]["0"]["connections"]["6"]["status"] != "CONNECTED"
    assert seen["nodes"]["0"]["connections"]["7"]["status"] == "CONNECTED"


def test_imex_one_way_is_in_one_row_only(world: World, run: Run) -> None:
    world.faults.add("imex-one-way", node="rack01-n02", peer="rack01-n05")
    seen = json.loads(run("rack01-n01", "nvidia-imex-ctl", "-N", "-j").out)
    assert seen["nodes"]["1"]["connections"]["4"]["status"] != "CONNECTED"
    assert seen["nodes"]["4"]["connections"]["1"]["status"] == "CONNECTED"
    assert seen["status"] == "DEGRADED"


def test_clique_split_and_unregistered(world: World, run: Run) -> None:
    world.faults.add("clique-split", node="rack01-n04", clique=77)
    world.faults.add("fabric-unregistered", node="rack01-n05")
    query = ("--query-gpu=fabric.state,fabric.status,fabric.cliqueId,fabric.clusterUuid", "--format=csv,noheader")
    rows = {node: set(run(node, "nvidia-smi", *query).out.splitlines()) for node in ALL}
    healthy = rows["rack01-n01"]
    assert len(healthy) == 1 and sum(row == healthy for row in rows.values()) == 16
    assert next(iter(rows["rack01-n04"])).split(", ")[2] == "77"
    assert rows["rack01-n05"] == {"Completed, Insufficient Resources, 0, 00000000-0000-0000-0000-000000000000"}


@pytest.mark.parametrize(
    ("kind", "where", "field", "value"),
    [
        ("ecc-uncorrectable", {"gpu": 1, "count": 5}, "ecc.errors.uncorrected.volatile.total", "5"),
        ("row-remap-pending", {"gpu": 1}, "remapped_rows.pending", "Yes"),
        ("row-remap-failure", {"gpu": 1}, "remapped_rows.failure", "Yes"),
    ],
)
def test_memory_faults_show_on_that_gpu_alone(
    world: World, run: Run, kind: str, where: dict[str, int], field: str, value: str
) -> None:
    query = ("nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader")
    before = run("rack01-n01", *query).out.splitlines()
    world.faults.add(kind, node="rack01-n01", **where)
    after = run("rack01-n01", *query).out.splitlines()
    assert after == [before[0], value, *before[2:]] and value not in before
    assert kernel(run, "rack01-n01") and not kernel(run, "rack01-n02")


def test_busy_gpu_lists_its_process_and_inforom_warns_on_stderr(world: World, run: Run) -> None:
    world.faults.add("gpu-busy", node="rack01-n01", gpu=0, name="train.py")
    world.faults.add("inforom-corrupt", node="rack01-n02", gpu=3)
    query = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader")
    assert "train.py" in run("rack01-n01", *query).out and run("rack01-n02", *query).out == ""
    assert "train.py" in run("rack01-n01", "nvidia-smi").out and "train.py" in run("rack01-n01", "nvidia-smi", "-q").out
    warned = run("rack01-n02", "nvidia-smi", "-L")
    assert "infoROM is corrupted at gpu 0019:01:00.0" in warned.err and warned.code == 0


def test_wrong_pkey_is_on_every_port_of_the_node(world: World) -> None:
    world.faults.add("wrong-pkey", node="rack01-n01", pkey="0x8123")
    keys = {vm.hostname: {p.pkeys[0] for p in world.node(vm).ports if p.infiniband} for vm in world.vms()}
    assert keys["rack01-n01"] == {0x8123} and keys["rack01-n02"] != {0x8123}


def test_healing_makes_it_whole_again(world: World, run: Run) -> None:
    before = run("rack01-n11", "nvidia-smi", "-q", "-x").out
    world.faults.add("nvlink-down", node="rack01-n11")
    assert run("rack01-n11", "nvidia-smi", "-q", "-x").out != before
    world.faults.clear()
    assert run("rack01-n11", "nvidia-smi", "-q", "-x").out == before
