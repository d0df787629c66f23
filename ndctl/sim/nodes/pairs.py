"""perftest's two sides: a server waits on one node until a client of another asks for it, or its time is up."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ndctl.sim.tools import perftest
from ndctl.sim.tools.answer import Answer
from ndctl.sim.tools.perftest import Options
from ndctl.sim.world import VM, World
from ndctl.sim.world.parts import Port

# A real server waits for ever; here it ends by itself, so that a test that forgot one leaves nothing behind.
_PATIENCE_S = 120.0
_MORE = -1


@dataclass(slots=True)
class _Waiting:
    options: Options
    port: Port
    vm: VM
    met: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class PairDesk:
    """Brings servers and clients together by (address, TCP port)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._servers: dict[tuple[str, int], _Waiting] = {}
        self._runs = itertools.count(1)

    @property
    def waiting(self) -> int:
        return len(self._servers)

    async def run(
        self, vm: VM, tool: str, arguments: Sequence[str], reader: asyncio.StreamReader
    ) -> AsyncIterator[Answer]:
        """One side's output. `reader` ends when the command is ended, and with it a server's wait."""
        try:
            options = Options.read(tool, arguments)
        except ValueError as error:
            yield Answer(err=f" {error}\n", code=1)
            return
        port = perftest.device_of(options, self._world.node(vm)) if vm.has_gpus else None
        if port is None:
            yield Answer(err=perftest.no_device(options), code=1)
        elif not port.active:
            yield Answer(err=perftest.PORT_DOWN, code=1)
        elif options.host:
            yield self._client(vm, options, port)
        else:
            async for answer in self._server(vm, options, port, reader):
                yield answer

    async def _server(
        self, vm: VM, options: Options, port: Port, reader: asyncio.StreamReader
    ) -> AsyncIterator[Answer]:
        key = (vm.address, options.port)
        if key in self._servers:
            yield Answer(err="Couldn't listen to port " + str(options.port) + "\n", code=1)
            return
        waiting = _Waiting(options, port, vm)
        self._servers[key] = waiting
        leaving = asyncio.create_task(reader.read(1))
        try:
            yield Answer(perftest.WAITING, code=_MORE)
            both: set[asyncio.Future[Any]] = {waiting.met, leaving}
            await asyncio.wait(both, timeout=_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            if waiting.met.done():
                yield waiting.met.result()
            elif not leaving.done():
                yield Answer(err="Couldn't accept a client: connection timed out\n", code=1)
        finally:
            leaving.cancel()
            if self._servers.get(key) is waiting:
                del self._servers[key]

    def _client(self, vm: VM, options: Options, own: Port) -> Answer:
        server_vm = self._world.vm_at(options.host) or self._world.named(options.host, vm.cluster)
        waiting = self._servers.pop((server_vm.address, options.port), None) if server_vm is not None else None
        if waiting is None:
            return Answer(err=perftest.refused(options), code=1)
        peer = waiting.port
        run = next(self._runs)
        ids = (f"{vm.address}/{run}", f"{waiting.vm.address}/{run}")
        client = perftest.banner(options, own, peer, *ids, client=True)
        server = perftest.banner(waiting.options, peer, own, ids[1], ids[0], client=False)
        if own.infiniband and own.pkeys[0] != peer.pkeys[0]:
            waiting.met.set_result(Answer(server, perftest.RETRY_EXCEEDED.replace("client", "server"), code=1))
            return Answer(client, perftest.RETRY_EXCEEDED, code=1)
        rows = perftest.rows(options, own, peer, self._world.seed, *ids)
        waiting.met.set_result(Answer(server + rows))
        return Answer(client + rows)
