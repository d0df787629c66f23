"""The unix socket on which the stand-in tools ask: answers from the model, and the coordinated ones (MPI, perftest)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ndctl.sim.nodes import effects, loads
from ndctl.sim.nodes.pairs import PairDesk
from ndctl.sim.nodes.tree import NodeTrees
from ndctl.sim.tools import gemm, nccl, nvbandwidth
from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import VM, World

_LONGEST_SOCKET_PATH = 100  # sockaddr_un holds 108 bytes


@dataclass(frozen=True, slots=True)
class Request:
    vm: VM
    key: str
    tool: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


def socket_path(world: World) -> str:
    """In the world's directory, or under the temporary directory when that path is too long for a socket."""
    path = world.directory / "tools.sock"
    if len(str(path)) <= _LONGEST_SOCKET_PATH:
        return str(path)
    name = hashlib.sha256(str(world.directory.resolve()).encode()).hexdigest()[:16]
    return str(Path(tempfile.gettempdir()) / f"ndctl-sim-{name}.sock")


class ToolService:
    """Serves the tools of one world."""

    def __init__(self, world: World, trees: NodeTrees) -> None:
        self._world = world
        self._trees = trees
        self._desk = PairDesk(world)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        Path(self._trees.socket_path).unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._client, self._trees.socket_path, backlog=512)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        Path(self._trees.socket_path).unlink(missing_ok=True)

    def waiting(self) -> int:
        """How many perftest servers wait for their client."""
        return self._desk.waiting

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = self._read(await reader.readuntil(b"\0\0"))
            async for answer in self._answers(request, reader):
                await _send(writer, answer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # the command was ended while it asked: nobody is left to answer
        except LookupError as error:
            with contextlib.suppress(ConnectionError):
                await _send(writer, Answer(err=f"simulator: {error}\n", code=70))
        finally:
            writer.close()

    def _read(self, data: bytes) -> Request:
        fields = [field[1:].decode("utf-8", "surrogateescape") for field in data[:-2].split(b"\0")]
        address, key, count = fields[:3]
        environment = dict(entry.partition("=")[::2] for entry in fields[3 : 3 + int(count)])
        tool, *arguments = fields[3 + int(count) :]
        vm = self._world.vm_at(address)
        if vm is None:
            raise LookupError(f"no VM at {address}")
        return Request(vm, key, tool, arguments, environment)

    async def _answers(self, request: Request, reader: asyncio.StreamReader) -> AsyncIterator[Answer]:
        if request.tool == "mpirun":
            yield nccl.launched(self._world, request.vm, request.arguments, request.environment)
        elif request.tool.endswith("_perf"):
            yield nccl.on_one_node(self._world, request.vm, request.tool, request.arguments, request.environment)
        elif request.tool in gemm.PROGRAMS:
            yield await loads.run(self._world, request.vm, request.tool, request.arguments, request.environment, reader)
        elif request.tool == "nvbandwidth":
            yield nvbandwidth.answer(self._world.node(request.vm), request.arguments, self._world.seed)
        elif request.tool.startswith("ib_"):
            async for answer in self._desk.run(request.vm, request.tool, request.arguments, reader):
                yield answer
        else:
            answer = self._trees.answer(request.vm, request.key, request.tool, request.arguments)
            effects.work(self._world, request.vm, request.tool, request.arguments, answer)
            yield answer


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> None:
    """One answer; a code below 0 means that more follows."""
    for kind, text in ((b"o", answer.out), (b"e", answer.err)):
        data = text.encode("utf-8", "surrogateescape")
        if data:
            writer.write(kind + b" %d\n" % len(data) + data)
    if answer.code >= 0:
        writer.write(b"x %d\n" % answer.code)
    await writer.drain()
