"""What a command does to its node, beside what it prints: a reset, a restart, a reboot."""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.sim.healing import heal
from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import VM, World


def work(world: World, vm: VM, tool: str, arguments: Sequence[str], answer: Answer) -> None:
    """Change the model as the command did; one that failed changes nothing."""
    if answer.code != 0:
        return
    if tool == "nvidia-smi" and ("--gpu-reset" in arguments or "-r" in arguments):
        heal(world, vm, "reset-gpu")
    if tool != "systemctl":
        return
    words = [argument for argument in arguments if not argument.startswith("-")]
    if words[:1] == ["restart"] and any(unit.startswith("nvidia-imex") for unit in words[1:]):
        heal(world, vm, "restart-imex")
    if words[:1] == ["reboot"]:
        heal(world, vm, "reboot")
        world.update(vm, boots=vm.boots + 1)
