"""One model of the racks, from which every tool answers, so that all tell one story."""

from ndctl.sim.world.vm import VM
from ndctl.sim.world.world import GB300_SIZE, World

__all__ = ["GB300_SIZE", "VM", "World"]
