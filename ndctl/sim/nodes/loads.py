"""Loads that take their time: while one runs its GPU is hot; who asks for it waits, or ends it by going away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ndctl.sim.tools import gemm
from ndctl.sim.tools.answer import Answer, not_found
from ndctl.sim.world import VM, World
from ndctl.sim.world.load import end_load


async def run(
    world: World,
    vm: VM,
    tool: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    reader: asyncio.StreamReader,
) -> Answer:
    """The program's output when its time is over. `reader` ends when the command is ended."""
    if not vm.has_gpus:
        return not_found(tool)
    todo = gemm.load_of(tool, world.node(vm), arguments, environment, world.seed)
    if isinstance(todo, Answer):
        return todo
    # A little longer than it takes: the last sample must not see it end before it has.
    todo.gpu.loaded_until = world.clock() + todo.real_s + 5.0
    leaving = asyncio.create_task(reader.read(1))
    try:
        await asyncio.wait({leaving}, timeout=todo.real_s)
    finally:
        leaving.cancel()
        end_load(todo.gpu, todo.node_s)
    return todo.answer
