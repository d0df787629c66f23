"""What becomes of a connection to a node's SSH port, by the faults planted on it."""

from __future__ import annotations

from typing import Literal

from ndctl.sim.world.vm import VM
from ndctl.sim.world.world import World

Fate = Literal["served", "refused", "silent"]


def ssh_fate(world: World, vm: VM) -> Fate:
    """served; refused: nobody listens; silent: no banner ever comes, as where packets are dropped."""
    if world.node_fault(vm, "vm-dead", "network-cut"):
        return "silent"
    down = world.node_fault(vm, "node-down")
    if down is not None:
        return "silent" if down.where.get("how") == "silent" else "refused"
    broken = world.node_fault(vm, "sshd-broken")
    return "refused" if broken is not None and broken["how"] != "key-missing" else "served"
