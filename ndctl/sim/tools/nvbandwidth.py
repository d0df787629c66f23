"""nvbandwidth v0.8, on one node and over several under mpirun: the text form of its output.cpp and inline_common.h."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import seeds
from ndctl.sim.world.parts import Gpu
from ndctl.sim.world.view import DRIVER_VERSION, NodeView

_runs = itertools.count(1)
_HEAD = "nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n\n"
_MPI = "MPI version: Open MPI v4.1.9a1, package: Open MPI root@build Distribution, ident: 4.1.9a1\n"
_VERSIONS = f"CUDA Runtime Version: 13000\nCUDA Driver Version: 13000\nDriver Version: {DRIVER_VERSION}\n\n"
_NOTE = (
    "NOTE: The reported results may not reflect the full capabilities of the platform.\n"
    "Performance can vary with software drivers, hardware clocks, and system topology.\n\n"
)
_WITHOUT_PROFILE = {"local": 1990.0, "to device": 55.0, "to host": 52.0, "between": 371.0}
_LINK_SHARE = 17 / 18

Cell = Callable[[int, int], float | None]


def answer(view: NodeView, arguments: Sequence[str], seed: str) -> Answer:
    """A run on one node. Testcases it does not know end in an error line, as the tool's own do."""
    wanted, prefixes = _wanted(arguments)
    if prefixes:
        return _no_match(_HEAD + _VERSIONS + _devices(view))
    text = _HEAD + _VERSIONS + _devices(view)
    run = next(_runs)
    for name in wanted or tuple(_SINGLE):
        if name not in _SINGLE:
            text += f"ERROR: Testcase {name} not found!\n"
            continue
        title, of = _SINGLE[name]
        values = [[of(gpu, view) * seeds.noise(0.004, seed, name, gpu.uuid, run) for gpu in view.live_gpus]]
        text += f"Running {name}.\n{title}\n" + _table(name, values)
    return Answer(text + _NOTE, keep=False)


def over_nodes(views: Sequence[NodeView], per_node: int, arguments: Sequence[str], seed: str) -> Answer:
    """A run of the multi-node build, one process a GPU."""
    short = next((view for view in views if len(view.live_gpus) < per_node), None)
    ranks = [(view, view.live_gpus[local % len(view.live_gpus)]) for view in views for local in range(per_node)]
    text = _HEAD + _MPI + _VERSIONS
    if short is not None:
        text = f"Warning: there are more processes than GPUs on {short.vm.hostname}. Please reduce number of processes"
        text += " to match GPU count.\n" + _HEAD + _MPI + _VERSIONS
    width = math.ceil(math.log10(len(ranks) + 1))
    for number, (view, gpu) in enumerate(ranks):
        text += f"Process {number:{width}d} ({view.vm.hostname}): device {gpu.index}: {_device(gpu)}\n"
    text += "\n"
    wanted, prefixes = _wanted(arguments)
    names = [name for name in _MULTI if name in wanted or any(name.startswith(p) for p in prefixes)]
    if prefixes and not names:
        return _no_match(text)
    trouble = _trouble(views, per_node)
    run = next(_runs)
    for name in names:
        text += f"Running {name}.\n"
        if trouble:
            return Answer(text, trouble, code=1, keep=False)
        text += f"{_MULTI[name]}\n" + _table(name, _matrix(ranks, name, seed, run))
    return Answer(text + _NOTE, keep=False)


def _wanted(arguments: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(testcases, prefixes): both options take several words."""
    lists: dict[str, list[str]] = {"-t": [], "-p": []}
    names = {"-t": "-t", "--testcase": "-t", "-p": "-p", "--testcasePrefixes": "-p"}
    current: list[str] | None = None
    for argument in arguments:
        if argument.startswith("-"):
            current = lists.get(names.get(argument, ""))
        elif current is not None:
            current.append(argument)
    return tuple(lists["-t"]), tuple(lists["-p"])


def _no_match(text: str) -> Answer:
    return Answer(text, "Specified list of testcase prefixes did not match any testcases\n", code=1, keep=False)


def _device(gpu: Gpu) -> str:
    return f"{gpu.name} ({gpu.pci.rsplit('.', 1)[0].lower()})"


def _devices(view: NodeView) -> str:
    return "".join(f"Device {place}: {_device(gpu)}\n" for place, gpu in enumerate(view.live_gpus)) + "\n"


def _local(gpu: Gpu, view: NodeView) -> float:
    bounds = view.shape.profile.gpu.local_copy_gb_per_s
    return _own(gpu, "hbm") * gpu.memory_speed * (bounds.expected.value if bounds else _WITHOUT_PROFILE["local"])


def _to_device(gpu: Gpu, view: NodeView) -> float:
    known = view.shape.profile.gpu.host_to_device_gb_per_s
    return _own(gpu, "h2d") * gpu.host_link_speed * (known.value if known else _WITHOUT_PROFILE["to device"])


def _to_host(gpu: Gpu, view: NodeView) -> float:
    known = view.shape.profile.gpu.device_to_host_gb_per_s
    return _own(gpu, "d2h") * gpu.host_link_speed * (known.value if known else _WITHOUT_PROFILE["to host"])


def _own(gpu: Gpu, what: str) -> float:
    return seeds.noise(0.006, what, gpu.uuid)


_SINGLE: dict[str, tuple[str, Callable[[Gpu, NodeView], float]]] = {
    "host_to_device_memcpy_ce": ("memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", _to_device),
    "device_to_host_memcpy_ce": ("memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)", _to_host),
    "device_local_copy": ("memcpy local GPU(column) bandwidth (GB/s)", _local),
}
_MULTI = {
    "multinode_device_to_device_memcpy_read_ce": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
    "multinode_device_to_device_memcpy_write_ce": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
}


def _matrix(ranks: Sequence[tuple[NodeView, Gpu]], name: str, seed: str, run: int) -> list[list[float | None]]:
    """A copy is as fast as the slower of its two GPUs' links."""
    known = ranks[0][0].shape.profile.nvlink.device_to_device_gb_per_s
    full = known.value if known is not None else _WITHOUT_PROFILE["between"]
    speeds = [_link_speed(view, gpu) for view, gpu in ranks]
    rows: list[list[float | None]] = []
    for row, own in enumerate(speeds):
        noise = seeds.noise(0.003, seed, name, run, row)
        rows.append(
            [
                None if row == column else full * min(own, other) * noise * seeds.noise(0.003, seed, run, row, column)
                for column, other in enumerate(speeds)
            ]
        )
    return rows


def _link_speed(view: NodeView, gpu: Gpu) -> float:
    up = sum(link.active for link in gpu.links) / max(len(gpu.links), 1)
    return gpu.nvlink_speed * view.nvlink_speed * (up * _LINK_SHARE if up < 1 else 1.0)


def _trouble(views: Sequence[NodeView], per_node: int) -> str:
    """What CUDA says when memory cannot be shared between these nodes."""
    for number, view in enumerate(views):
        where = f"on {view.vm.hostname}, rank = {number * per_node} in MultinodeMemoryAllocationUnicast::"
        where += "MultinodeMemoryAllocationUnicast(size_t, int)() : multinode_memcpy.cpp"
        if view.shape.imex and not view.imex_running:
            return (
                "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression cuMemCreate(&handle, "
                f"roundedUpAllocationSize, &prop, 0 ) {where}:61\n"
            )
        own, first = view.gpus[0].fabric, views[0].gpus[0].fabric
        if len(views) > 1 and (own.clique_id, own.cluster_uuid) != (first.clique_id, first.cluster_uuid):
            return (
                "[CUDA_ERROR_INVALID_VALUE] invalid argument in expression cuMemSetAccess((CUdeviceptr) buffer, "
                f"roundedUpAllocationSize, &desc, 1 ) {where}:76\n"
            )
    return ""


def _table(name: str, rows: Sequence[Sequence[float | None]]) -> str:
    text = "  " + "".join(f"{column:10d}" for column in range(len(rows[0]))) + "\n"
    total = 0.0
    for number, row in enumerate(rows):
        text += f"{number:2d}" + "".join(f"{'N/A' if v is None else f'{v:.2f}':>10}" for v in row) + "\n"
        total += sum(value for value in row if value is not None)
    return text + f"\nSUM {name} {total:.2f}\n\n"
