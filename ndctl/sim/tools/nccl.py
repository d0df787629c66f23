"""nccl-tests (*_perf), started by mpirun over several nodes or alone on one: the log they print.

Header, rank list, columns and footer are those of nccl-tests 2.18 on GB300 trays.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ndctl.sim.tools import nccl_info, nvbandwidth
from ndctl.sim.tools.answer import Answer
from ndctl.sim.tools.nccl_info import NCCL_VERSION, Rank
from ndctl.sim.tools.nccl_model import Plan, bus_factor, plan, time_us
from ndctl.sim.world import VM, World, seeds

_RULE = "-" * 74
_DEFAULT_BYTES = 32 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SUMMED = ("all_reduce", "reduce_scatter", "reduce", "sendrecv")
_NOT_IN_PLACE = ("alltoall", "sendrecv")  # whose in-place result the tool compares with nothing
_runs = itertools.count(1)

_TITLE = (
    f"#\n#{'out-of-place':>74}{'in-place':>31}          \n"
    f"#{'size':>11}{'count':>14}{'type':>10}{'redop':>8}{'root':>8}"
    + f"{'time':>9}{'algbw':>8}{'busbw':>8}{'#wrong':>8}" * 2
    + f" \n#{'(B)':>11}{'(elements)':>14}{'(us)':>35}{'(GB/s)':>8}{'(GB/s)':>8}"
    + f"{'(us)':>17}{'(GB/s)':>8}{'(GB/s)':>8}         \n"
)


@dataclass(frozen=True, slots=True)
class Options:
    smallest: int = _DEFAULT_BYTES
    largest: int = _DEFAULT_BYTES
    factor: int = 0
    step: int = 1 << 20
    iterations: int = 20
    warmup: int = 1
    check: int = 1
    gpus: int = 1

    @classmethod
    def read(cls, arguments: Sequence[str]) -> Options:
        """nccl-tests' own options, short or long; unknown ones are ignored. ValueError on a bad number."""
        names = {
            "-b": "smallest",
            "--minbytes": "smallest",
            "-e": "largest",
            "--maxbytes": "largest",
            "-f": "factor",
            "--stepfactor": "factor",
            "-i": "step",
            "--stepbytes": "step",
            "-n": "iterations",
            "--iters": "iterations",
            "-w": "warmup",
            "--warmup_iters": "warmup",
            "-c": "check",
            "--check": "check",
            "-g": "gpus",
            "--ngpus": "gpus",
        }
        values: dict[str, int] = {}
        for index, argument in enumerate(arguments):
            name, _, value = argument.partition("=")
            if name in names:
                text = value or (arguments[index + 1] if index + 1 < len(arguments) else "")
                unit = _UNITS.get(text[-1:].upper(), 1)
                values[names[name]] = int(float(text.rstrip("kKmMgG")) * unit)
        values.setdefault("largest", values.get("smallest", _DEFAULT_BYTES))
        return cls(**values)

    def sizes(self) -> Iterator[int]:
        size = self.smallest
        while size <= self.largest:
            yield size
            size = size * self.factor if self.factor > 1 else size + max(self.step, 1)


Wrong = tuple[int, int]
"""Elements that are wrong, out-of-place and in-place."""


def launched(
    world: World,
    head: VM,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    wrong: Wrong | None = None,
) -> Answer:
    """A program under mpirun. `arguments`: process count, processes per node, host count, hosts, program.

    wrong: as really counted, where a real collective ran; None: as the model says
    """
    wanted, per_node_text, count, *rest = arguments
    entries = [entry.rsplit(" ", 1) for entry in rest[: int(count)]]
    program = rest[int(count) :]
    vms = []
    for name, _ in entries:
        vm = head if name in ("localhost", "127.0.0.1") else world.vm_at(name) or world.named(name, head.cluster)
        if vm is None:
            return Answer(err=f"ssh: Could not resolve hostname {name}: Name or service not known\n", code=1)
        vms.append(vm)
    slots = sum(int(slots) for _, slots in entries)
    capacity = int(per_node_text) * len(vms) if per_node_text else slots or world.shape(head).vcpus * len(vms)
    processes = int(wanted) if wanted else capacity
    if processes > capacity or (slots and processes > slots):
        return Answer(err=_not_enough(processes, program[0]), code=1)
    per_node = int(per_node_text) if per_node_text else -(-processes // len(vms))
    used = vms[: -(-processes // per_node)]
    name = program[0].rpartition("/")[2]
    if name == "hostname":
        return Answer("".join(f"{vm.hostname}\n" * per_node for vm in used))
    if name == "nvbandwidth":
        return nvbandwidth.over_nodes([world.node(vm) for vm in used], per_node, program[1:], world.seed)
    if not name.endswith("_perf"):
        return Answer(err=_cannot_launch(program[0], used[0].hostname), code=134)
    return _run(world, used, per_node, name, program[1:], environment, under_mpi=True, wrong=wrong)


def on_one_node(world: World, vm: VM, tool: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Answer:
    """A test started without mpirun: one process that drives `-g` GPUs."""
    try:
        gpus = Options.read(arguments).gpus
    except ValueError as error:
        return Answer(err=f"{error}\n", code=1)
    return _run(world, [vm], gpus, tool, arguments, environment, under_mpi=False)


def _run(
    world: World, vms: Sequence[VM], per_node: int, tool: str, arguments: Sequence[str],
    environment: Mapping[str, str], *, under_mpi: bool, wrong: Wrong | None = None,
) -> Answer:  # fmt: skip
    try:
        options = Options.read(arguments)
    except ValueError as error:
        return Answer(err=f"{error}\n", code=1)
    views = [world.node(vm) for vm in vms]
    test = tool.removesuffix("_perf")
    run = next(_runs)
    todo = plan(views, per_node, test, environment)
    pids = {view.vm.address: 20_000 + seeds.number(400_000, "pid", view.vm.address, run) for view in views}
    pairs = [(view, local) for view in views for local in range(per_node)]
    text = f"# nccl-tests version 2.18.5 nccl-headers=22907 nccl-library=22907\n# Collective test starting: {tool}\n"
    stepping = f"{options.factor}(factor)" if options.factor > 1 else f"{options.step}(bytes)"
    text += (
        f"# nThread 1 nGpus {1 if under_mpi else per_node} minBytes {options.smallest} maxBytes {options.largest} "
        f"step: {stepping} warmup iters: {options.warmup} iters: {options.iterations} agg iters: 1 "
        f"validation: {options.check} graph: 0 unalign: 0\n#\n# Using devices\n"
    )
    if todo.failure == "device":
        return _failed(text, todo, "common.cu:1030 'invalid device ordinal'", "CUDA", pids, vms, under_mpi)
    ranks = [
        Rank(number, local, view, pids[view.vm.address] + (local if under_mpi else 0))
        for number, (view, local) in enumerate(pairs)
    ]
    for rank in ranks:
        gpu = rank.view.live_gpus[rank.local]
        text += (
            f"#  Rank {rank.number:2d} Group  0 Pid {rank.pid:6d} on {rank.view.vm.hostname:>10} "
            f"device {rank.local:2d} [{gpu.pci[4:14].lower()}] {gpu.name}\n"
        )
    if environment.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE"):
        text += "".join(nccl_info.lines(ranks, todo, environment, test))
    elif environment.get("NCCL_DEBUG", "VERSION").upper() in ("VERSION", "WARN"):
        text += f"NCCL version {NCCL_VERSION}\n"
    if todo.failure:
        return _failed(text + _complaint(todo, ranks), todo, _NCCL_FAILURE[todo.failure], "NCCL", pids, vms, under_mpi)
    if wrong is None:
        wrong = (sum(rank.view.corrupts for rank in ranks),) * 2
    if not options.check:
        wrong = (0, 0)
    elif test in _NOT_IN_PLACE:
        wrong = (wrong[0], 0)
    text += _table(tool, test, options, todo, ranks, wrong, (world.seed, run))
    if not any(wrong):
        return Answer(text, keep=False)
    return Answer(text, _mpi_ending(pids[vms[0].address], 0, 1) if under_mpi else "", code=1, keep=False)


def _table(
    tool: str, test: str, options: Options, todo: Plan, ranks: Sequence[Rank], wrong: Wrong, noise: tuple[object, ...]
) -> str:
    count = len(ranks)
    text, sums = _TITLE, []
    for size in options.sizes():
        share = count if test in ("all_gather", "reduce_scatter", "alltoall") else 1
        elements = size // 4 // share
        actual = elements * 4 * share
        row = f"{actual:12d}  {elements:12d}  {'float':>8}  {'sum' if test in _SUMMED else 'none':>6}  "
        row += f"{0 if test in ('broadcast', 'reduce') else -1:6d}"
        for column, bad in zip(("out", "in"), wrong, strict=True):
            if actual == 0:
                time, algbw = 0.2, 0.0
            else:
                time = time_us(todo, test, actual, count, column, size, *noise)
                algbw = actual / time / 1e3
            busbw = algbw * bus_factor(test, count)
            sums.append(busbw)
            compared = options.check and not (test in _NOT_IN_PLACE and column == "in")
            row += f"  {_time(time):>7}  {algbw:6.2f}  {busbw:6.2f}  {str(bad) if compared else 'N/A':>5}"
        text += row + "\n"
    average = sum(sums) / len(sums) if sums else 0.0
    count = sum(wrong) * len(list(options.sizes()))
    text += (
        f"# Out of bounds values : {count} {'FAILED' if count else 'OK'}\n# Avg bus bandwidth    : {average:g} \n#\n"
    )
    return text + f"# Collective test concluded: {tool}\n#\n\n"


def _time(microseconds: float) -> str:
    if microseconds < 100:
        return f"{microseconds:.2f}"
    return f"{microseconds:.1f}" if microseconds < 100_000 else f"{microseconds:.0f}"


_NCCL_FAILURE = {
    "mnnvl": "common.cu:1204 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '",
    "pkey": "common.cu:429 'remote process exited or there was a network error / '",
    "port": "common.cu:1204 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '",
}


def _complaint(todo: Plan, ranks: Sequence[Rank]) -> str:
    """The NCCL WARN line that names the cause."""
    rank = next((rank for rank in ranks if rank.view.vm.hostname == todo.culprit), ranks[0])
    if todo.failure == "mnnvl":
        return rank.warns(
            "mnnvl.cc:98",
            f"MNNVL (cliqueSize {todo.clique_size}) is available but not working on this system. Check the IMEX "
            "channel configuration (/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this issue.",
        )
    if todo.failure == "pkey":
        peer = next(other for other in ranks if other.view is not rank.view)
        return rank.warns(
            "transport/net_ib.cc:2301",
            f"NET/IB: Got completion from peer {peer.view.vm.address}<41877> with status=12 opcode=1 len=0 "
            "vendor err 129 (Send)",
        )
    return rank.warns("net_ib.cc:901", "NET/IB : No device found.")


def _failed(
    text: str, todo: Plan, where: str, kind: str, pids: Mapping[str, int], vms: Sequence[VM], under_mpi: bool
) -> Answer:
    culprit = next((vm for vm in vms if vm.hostname == todo.culprit), vms[0])
    pid = pids[culprit.address]
    code = 2 if kind == "CUDA" else 3
    text += f"{culprit.hostname}: Test {kind} failure {where}\n"
    text += f" .. {culprit.hostname} pid {pid}: Test failure common.cu:937\n"
    if not under_mpi:
        return Answer(text, code=code, keep=False)
    return Answer(
        text, _mpi_ending(pid, [vm.address for vm in vms].index(culprit.address), code), code=code, keep=False
    )


def _mpi_ending(pid: int, index: int, code: int) -> str:
    """mpirun's last words when a process ended with an exit code."""
    return (
        f"{_RULE}\nPrimary job  terminated normally, but 1 process returned\n"
        f"a non-zero exit code. Per user-direction, the job has been aborted.\n{_RULE}\n"
        f"{_RULE}\nmpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n"
        f"  Process name: [[{pid % 60000},1],{index}]\n  Exit code:    {code}\n{_RULE}\n"
    )


def _not_enough(processes: int, program: str) -> str:
    return (
        f"{_RULE}\nThere are not enough slots available in the system to satisfy the {processes}\n"
        f"slots that were requested by the application:\n\n  {program}\n\n"
        "Either request fewer slots for your application, or make more slots\navailable for use.\n" + _RULE + "\n"
    )


def _cannot_launch(program: str, host: str) -> str:
    return (
        f"{_RULE}\nmpirun was unable to launch the specified application as it could not access\n"
        f"or execute an executable:\n\nExecutable: {program}\nNode: {host}\n\n"
        f"while attempting to start process rank 0.\n{_RULE}\n"
    )
