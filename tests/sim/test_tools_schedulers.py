"""scontrol, squeue and kubectl of stand-in nodes: there only where planted, and shaped like the real ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ndctl.sim.world import VM, World

CAPTURES = Path(__file__).parents[1] / "captures" / "slurm-node"


@pytest.fixture
def world(tmp_path: Path) -> World:
    one = World(tmp_path)
    for index in (1, 2):
        one.add_vm(
            "c", 1, index, vmss="s", instance_id=str(index), address=f"127.98.1.{index}", admin_user="u", admin_key=""
        )
    return one


def vm(world: World, index: int) -> VM:
    return world.vm("s", str(index))


def path_of(world: World, index: int, tool: str) -> str:
    return world.shell(vm(world, index), f"command -v {tool}")[1].strip()


def test_a_scheduler_is_only_where_it_was_planted(world: World) -> None:
    world.faults.add("slurm-allocated", node="rack01-n01")
    world.faults.add("k8s-busy", node="rack01-n02")
    own = str(world.trees.folder)
    found = {(i, t): path_of(world, i, t).startswith(own) for i in (1, 2) for t in ("scontrol", "squeue", "kubectl")}
    assert [key for key, there in found.items() if there] == [(1, "scontrol"), (1, "squeue"), (2, "kubectl")]
    assert (world.trees.folder / "127.98.1.2/home/.kube/config").exists()
    world.faults.clear()
    assert not any(path_of(world, i, t).startswith(own) for i, t in found)
    assert not (world.trees.folder / "127.98.1.2/home/.kube/config").exists()


def keys(line: str) -> list[str]:
    return re.findall(r"(?<!\S)([A-Za-z_]+)=", line)


@pytest.mark.parametrize(
    ("capture", "kind", "more"),
    [
        ("allocated", "slurm-allocated", {}),
        ("reserved", "slurm-allocated", {"state": "IDLE+RESERVED"}),
        ("drained", "slurm-drained", {}),
    ],
)
def test_a_line_has_the_fields_of_a_real_one(world: World, capture: str, kind: str, more: dict[str, str]) -> None:
    from ndctl.sim.tools.schedulers import scontrol

    world.faults.add(kind, node="rack01-n01", **more)
    line = scontrol(world.node(vm(world, 1)), ["show", "node", "rack01-n01", "-o"]).out
    real = (CAPTURES / f"{capture}.txt").read_text()
    # A node of a test cluster has a port of its own in the capture, since four share a host.
    assert keys(line) == [key for key in keys(real) if key != "Port"]
    assert re.search(r" State=(\S+) ", line)[1] == re.search(r" State=(\S+) ", real)[1]  # type: ignore[index]
    assert ("AllocTRES= " in line) is ("AllocTRES= " in real)


def test_another_name_and_a_controller_that_is_away(world: World) -> None:
    from ndctl.sim.tools.schedulers import scontrol

    world.faults.add("slurm-drained", node="rack01-n01")
    other = scontrol(world.node(vm(world, 1)), ["show", "node", "nosuch", "-o"])
    assert (other.out, other.code) == ("Node nosuch not found\n", 1)
    world.faults.add("slurm-away", node="rack01-n01")
    away = scontrol(world.node(vm(world, 1)), ["show", "node", "rack01-n01", "-o"])
    assert away.code == 1 and away.out == "" and "Unable to contact slurm controller" in away.err
