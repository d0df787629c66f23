"""nccl-tests' stand-in: one rank of a real MPI collective whose results are compared; rank 0 prints what the model of
the racks says of such a run, with the wrong elements that were really counted.

    python mpi_standin.py WORLD TEST_perf [nccl-tests' options]

Started by mpirun. NDCTL_NODE names the node a rank runs on. Only rank 0 loads the model.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

_COUNT = 64  # elements for each rank
_NAME = 64  # bytes of a node's name
_MPI = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
_IN_PLACE = ctypes.c_void_p(1)


def _symbol(name: str) -> ctypes.c_void_p:
    """Open MPI's handles are addresses of its own variables."""
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(_MPI, name)))


_WORLD, _FLOAT, _BYTE = _symbol("ompi_mpi_comm_world"), _symbol("ompi_mpi_float"), _symbol("ompi_mpi_byte")
_INT, _SUM = _symbol("ompi_mpi_int"), _symbol("ompi_mpi_op_sum")
Floats = ctypes.Array[ctypes.c_float]


def _value(rank: int, element: int) -> float:
    """Small whole numbers: their sums are exact whatever the order."""
    return float((rank * 31 + element) % 97)


def _floats(values: list[float]) -> Floats:
    return (ctypes.c_float * len(values))(*values)


def _mine(rank: int, count: int) -> list[float]:
    return [_value(rank, element) for element in range(count)]


def _all_reduce(rank: int, size: int, inside: bool) -> tuple[list[float], list[float]]:
    sent, got = _floats(_mine(rank, _COUNT)), _floats([0.0] * _COUNT)
    if inside:
        got = sent
    _MPI.MPI_Allreduce(_IN_PLACE if inside else sent, got, _COUNT, _FLOAT, _SUM, _WORLD)
    return list(got), [sum(_value(one, element) for one in range(size)) for element in range(_COUNT)]


def _all_gather(rank: int, size: int, inside: bool) -> tuple[list[float], list[float]]:
    sent, got = _floats(_mine(rank, _COUNT)), _floats([0.0] * _COUNT * size)
    if inside:
        got[rank * _COUNT : (rank + 1) * _COUNT] = sent[:]
    _MPI.MPI_Allgather(_IN_PLACE if inside else sent, _COUNT, _FLOAT, got, _COUNT, _FLOAT, _WORLD)
    return list(got), [_value(one, element) for one in range(size) for element in range(_COUNT)]


def _reduce_scatter(rank: int, size: int, inside: bool) -> tuple[list[float], list[float]]:
    sent = _floats(_mine(rank, _COUNT * size))
    got = sent if inside else _floats([0.0] * _COUNT)
    _MPI.MPI_Reduce_scatter_block(_IN_PLACE if inside else sent, got, _COUNT, _FLOAT, _SUM, _WORLD)
    own = range(rank * _COUNT, (rank + 1) * _COUNT)
    return list(got[:_COUNT]), [sum(_value(one, element) for one in range(size)) for element in own]


def _alltoall(rank: int, size: int, inside: bool) -> tuple[list[float], list[float]]:
    sent, got = _floats(_mine(rank, _COUNT * size)), _floats([0.0] * _COUNT * size)
    _MPI.MPI_Alltoall(sent, _COUNT, _FLOAT, got, _COUNT, _FLOAT, _WORLD)
    return list(got), [_value(one, rank * _COUNT + element) for one in range(size) for element in range(_COUNT)]


def _sendrecv(rank: int, size: int, inside: bool) -> tuple[list[float], list[float]]:
    """To the next, from the one before."""
    sent, got, before = _floats(_mine(rank, _COUNT)), _floats([0.0] * _COUNT), (rank - 1) % size
    ends = ((rank + 1) % size, 0), (before, 0)
    _MPI.MPI_Sendrecv(sent, _COUNT, _FLOAT, *ends[0], got, _COUNT, _FLOAT, *ends[1], _WORLD, None)
    return list(got), _mine(before, _COUNT)


_COLLECTIVES: dict[str, Callable[[int, int, bool], tuple[list[float], list[float]]]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "alltoall": _alltoall,
    "sendrecv": _sendrecv,
}


def main(world: str, program: str, *options: str) -> int:
    _MPI.MPI_Init(None, None)
    rank, size = _number(_MPI.MPI_Comm_rank), _number(_MPI.MPI_Comm_size)
    nodes = _gathered(rank, size, os.environ["NDCTL_NODE"])
    if rank == 0:
        from_model = Model(world, nodes)
        spoiled = from_model.spoiled()
    else:
        spoiled = [0] * size
    mine = ctypes.c_int(0)
    _MPI.MPI_Scatter((ctypes.c_int * size)(*spoiled), 1, _INT, ctypes.byref(mine), 1, _INT, 0, _WORLD)
    wrong = tuple(_counted(program.removesuffix("_perf"), rank, size, inside, mine.value) for inside in (False, True))
    code = 0
    if rank == 0:
        code = from_model.print_log(program, options, (wrong[0], wrong[1]))
    _MPI.MPI_Finalize()
    return code


def _number(call: Callable[..., int]) -> int:
    value = ctypes.c_int(0)
    call(_WORLD, ctypes.byref(value))
    return value.value


def _gathered(rank: int, size: int, text: str) -> list[str]:
    """Every rank's text, on rank 0."""
    sent = ctypes.create_string_buffer(text.encode(), _NAME)
    got = ctypes.create_string_buffer(_NAME * size)
    _MPI.MPI_Gather(sent, _NAME, _BYTE, got, _NAME, _BYTE, 0, _WORLD)
    return [got.raw[place * _NAME : (place + 1) * _NAME].rstrip(b"\0").decode() for place in range(size)]


def _counted(test: str, rank: int, size: int, inside: bool, spoiled: int) -> int:
    """Wrong elements over all ranks; on rank 0. A rank of a bad node spoils some of what it received."""
    got, expected = _COLLECTIVES[test](rank, size, inside)
    for element in range(min(spoiled, len(got))):
        got[element] += 1
    wrong = ctypes.c_int(sum(a != b for a, b in zip(got, expected, strict=True)))
    total = ctypes.c_int(0)
    _MPI.MPI_Reduce(ctypes.byref(wrong), ctypes.byref(total), 1, _INT, _SUM, 0, _WORLD)
    return total.value


class Model:
    """The racks' model, as the embedded region keeps it in a folder, and the nodes of this run by rank."""

    def __init__(self, folder: str, nodes: list[str]) -> None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        from ndctl.sim.world import World

        self._world = World(Path(folder))
        self._nodes = nodes

    def spoiled(self) -> list[int]:
        views = {name: self._world.node(self._vm(name)) for name in set(self._nodes)}
        return [views[name].corrupts for name in self._nodes]

    def print_log(self, program: str, options: tuple[str, ...], wrong: tuple[int, int]) -> int:
        from ndctl.sim.tools import nccl

        hosts = list(dict.fromkeys(self._nodes))
        per_node = len(self._nodes) // len(hosts)
        entries = [f"{name} {per_node}" for name in hosts]
        arguments = [str(len(self._nodes)), str(per_node), str(len(hosts)), *entries, program, *options]
        environment = {name: text for name, text in os.environ.items() if name.startswith("NCCL_")}
        answer = nccl.launched(self._world, self._vm(hosts[0]), arguments, environment, wrong)
        sys.stdout.write(answer.out)  # what mpirun says of the exit code, the real one says itself
        sys.stdout.flush()
        return answer.code

    def _vm(self, name: str):  # type: ignore[no-untyped-def]
        vm = self._world.named(name)
        if vm is None:
            raise SystemExit(f"{name} is no node of the model")
        return vm


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
