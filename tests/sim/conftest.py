"""A rack of the embedded region with a clock that stands still, and its nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ndctl.sim.tools import registry
from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import VM, World

NOON = 1_788_000_000.0
CAPTURES = Path(__file__).parents[1] / "captures"


@pytest.fixture
def capture() -> Callable[[str], str]:
    """Text of a real tool's output under tests/captures."""
    return lambda name: (CAPTURES / name).read_text()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two racks of 18 GB300 nodes; nothing serves them."""
    world = World(tmp_path / "sim", seed="test", clock=lambda: NOON)
    for rack in (1, 2):
        for index in range(1, 19):
            world.add_vm(
                "lab", rack, index, vmss=f"lab-rack{rack:02d}", instance_id=str(index),
                address=f"127.66.{rack}.{index}",
                admin_user="azureuser", admin_key="ssh-ed25519 AAAA nobody",
            )  # fmt: skip
    return world


@pytest.fixture
def run(world: World) -> Callable[..., Answer]:
    """`run("rack01-n03", "nvidia-smi", "-L")`: what a tool answers on a node."""

    def ask(node: str, tool: str, *arguments: str) -> Answer:
        vm = world.named(node)
        assert isinstance(vm, VM)
        return registry.answer(tool, world.node(vm), list(arguments), NOON)

    return ask
