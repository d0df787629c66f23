"""nccl-tests (and rccl-tests) output, text or JSON, with whatever NCCL and mpirun mixed into it -> facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ndctl.parse import nccl_facts
from ndctl.parse.nccl_json import JsonRun, read_json
from ndctl.parse.nccl_log import FabricGpu, NcclLog
from ndctl.parse.nccl_rows import INSIDE, Row, RowReader, read_header
from ndctl.parse.printed import integer, number
from ndctl.parse.tidy import tidy_lines

_RANK = re.compile(
    r"Rank\s+(\d{1,6})(?:\s+Group\s+(\d{1,6}))?(?:\s+Pid\s+(\d{1,10}))?\s+on\s+(\S{1,200})\s+device\s+(\d{1,4})\s+"
    r"\[([0-9a-fA-Fx:.]{1,20})\](.{0,200})"
)
_PARAMETER = re.compile(
    r"(nThread|nGpus|minBytes|maxBytes|warmup iters|agg iters|iters|validation|graph|unalign):?\s+(-?\d{1,20})"
)
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(-?\d{1,18}|-?nan)\s*(OK|FAILED)?", re.IGNORECASE)
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S{1,30})\s*(OK|FAILED)?")
_STARTING = re.compile(r"Collective test (?:starting|concluded): (?:\S{0,200}/)?(\w{1,40}?)(?:_perf)?\s*$")
_VERSION = re.compile(r"nccl-tests version (\S{1,40})")
_TROUBLE = re.compile(
    r"Test (?:NCCL|CUDA) failure|Test failure .{0,80}: |not enough slots|command not found|No such file or directory"
    r"|cannot open shared object|error while loading shared|Invalid number of GPUs|Segmentation fault|Bus error"
    r"|exited on signal|exited with non-zero|Permission denied|Host key verification failed|No route to host"
    r"|ORTE (?:was unable|has lost)|unable to (?:reliably )?(?:start|launch|find)|DUE TO TIME LIMIT|srun: error|Killed"
    r"|# error: \S|unhandled (?:cuda|system) error|Watchdog|terminate called|CUDA (?:error|driver)|out of memory"
    r"|remote process (?:exited|has terminated)|Could not resolve hostname|Connection (?:refused|timed out)|MPI_ABORT"
    r"|Abort\(\d|BAD TERMINATION|mpirun: (?:Error|not found)|Exit code:\s+[1-9]|\bXid\b|hang detected",
    re.IGNORECASE,
)
_MOST_KEPT = 60  # distinct complaints; a storm of them says nothing new


@dataclass(frozen=True, slots=True)
class NcclTests:
    """Facts of one output.

    rows:          as measured; lines an MPI launcher printed twice are counted once
    ranks:         of the job; None where neither the rank list nor NCCL shows it
    collective:    the first one; `collectives` and `runs` count what one text holds one after another
    communicators: more than one where the same rank numbers are claimed by several processes (no MPI build, split)
    peak_busbw:    GB/s, the largest of any row and side, at peak_bytes
    avg_busbw:     GB/s as the tool's own last line says; never computed
    out_of_bounds: elements out of bounds as the tool says; None where that line is missing
    ib_devices_of: host -> InfiniBand and RoCE devices NCCL found there; rail_devices: those that channels use
    transport:     farthest-reaching path of the channels NCCL printed, e.g. "P2P/MNNVL"; None where none was printed
    complete:      the tool's closing lines were there
    errors:        lines that say that something went wrong, each once
    """

    form: str
    collective: str | None
    collectives: tuple[str, ...]
    runs: int
    ranks: int | None
    nodes: int | None
    hosts: tuple[str, ...]
    communicators: int
    gpu: str | None
    nccl_version: str | None
    tests_version: str | None
    parameters: Mapping[str, int]
    checked: bool | None
    rows: tuple[Row, ...]
    peak_busbw: float | None
    peak_bytes: int | None
    avg_busbw: float | None
    avg_failed: bool
    out_of_bounds: int | None
    transport: str | None
    paths: Mapping[str, int]
    network: str | None
    rails: tuple[str, ...]
    ib_devices: tuple[str, ...]
    gdr: bool | None
    nvls: bool | None
    mnnvl: bool | None
    fabric: tuple[FabricGpu, ...]
    env: Mapping[str, str]
    complete: bool
    torn_rows: int
    duplicate_lines: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    ib_devices_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rail_devices: tuple[str, ...] = ()
    without_nvls: tuple[str, ...] = ()  # hosts


@dataclass(slots=True)
class _Reading:
    """What the lines gave so far."""

    table: RowReader = field(default_factory=RowReader)
    log: NcclLog = field(default_factory=NcclLog)
    # one rank list a run: (rank, pid, device, host) -> GPU
    lists: list[dict[tuple[int, str, int, str], str]] = field(default_factory=lambda: [{}])
    rows_before_list: int = 0
    parameters: dict[str, int] = field(default_factory=dict)
    bounds: list[int | None] = field(default_factory=list)
    bounds_failed: bool = False
    averages: list[float | None] = field(default_factory=list)
    average_failed: bool = False
    collectives: list[str] = field(default_factory=list)
    tests_version: str | None = None
    errors: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)


def parse(text: str, stderr: str = "") -> NcclTests:
    """Facts of the output; `stderr` is read after it. Never raises."""
    reading = _Reading()
    for line in tidy_lines(text if not stderr else f"{text}\n{stderr}"):
        _take(reading, line)
    reading.table.flush()
    run = read_json(text) if "{" in text else None
    if run is not None and (run.rows or not reading.table.rows):
        return _of_json(run, reading)
    return _of_text(reading)


def _take(reading: _Reading, line: str) -> None:
    if " NCCL " in line:
        said = reading.log.split(line)
        if said is not None:
            before, host, level, message = said
            reading.log.take(host, level, message)
            if before.strip(" #"):
                _take_own(reading, before)
            elif (inside := INSIDE.search(message)) and reading.table.feed(inside[1]):
                return
            return
    _take_own(reading, line)


def _take_own(reading: _Reading, line: str) -> None:
    """A line of the test or of its launcher."""
    if not line.strip() or reading.table.feed(line):
        return
    header = read_header(line)
    if header is not None:
        reading.table.header = header
    elif "(B)" in line and "(ms)" in line:
        reading.table.header = replace(reading.table.header, milliseconds=True)
    elif "Rank" in line and (rank := _RANK.search(line)):
        if len(reading.table.rows) > reading.rows_before_list and reading.lists[-1]:
            reading.lists.append({})  # results stand between this list and the one before: another run
        reading.rows_before_list = len(reading.table.rows)
        reading.lists[-1][(int(rank[1]), rank[3] or "", int(rank[5]), rank[4])] = rank[7].strip()
    elif "nThread" in line or "minBytes" in line:
        reading.parameters.update({name: int(value) for name, value in _PARAMETER.findall(line)})
    elif match := _BOUNDS.search(line):
        reading.bounds.append(integer(match[1]))
        reading.bounds_failed |= (match[2] or "").upper() == "FAILED"
    elif match := _AVERAGE.search(line):
        reading.averages.append(number(match[1]))
        reading.average_failed |= match[2] == "FAILED"
    elif "Collective test" in line and (match := _STARTING.search(line)):
        if match[1] not in reading.collectives:
            reading.collectives.append(match[1])
    elif "nccl-tests version" in line and (match := _VERSION.search(line)):
        reading.tests_version = match[1]
    elif _TROUBLE.search(line):
        if len(reading.errors) < _MOST_KEPT or line.strip() in reading.errors:
            reading.errors[line.strip()[:500]] += 1
    else:
        reading.log.take_text(line)


def _of_text(reading: _Reading) -> NcclTests:
    rows, doubled = nccl_facts.once(reading.table.rows)
    log = reading.log
    devices = max(reading.lists, key=len)
    lines_of_rank = Counter(rank for rank, *_ in devices)
    listed = max(lines_of_rank) + 1 if lines_of_rank else None
    ranks = max(filter(None, (listed, log.ranks)), default=None)
    bounds = [value for value in reading.bounds if value is not None]
    out_of_bounds = max(bounds, default=None)
    if reading.bounds_failed and not out_of_bounds:
        out_of_bounds = -1 if out_of_bounds is None else out_of_bounds
    return NcclTests(
        form="text",
        collective=reading.collectives[0] if reading.collectives else nccl_facts.collective(rows, ranks),
        collectives=tuple(reading.collectives),
        runs=len({tuple(one) for one in reading.lists}),
        ranks=ranks,
        **nccl_facts.placed([(rank, host, device) for rank, _, device, host in devices], log),
        communicators=max(lines_of_rank.values(), default=1),
        gpu=next((name for name in devices.values() if name), None),
        nccl_version=log.version,
        tests_version=reading.tests_version,
        parameters=reading.parameters,
        checked=nccl_facts.checked(rows, reading.parameters.get("validation")),
        rows=tuple(rows),
        **nccl_facts.peak(rows),
        avg_busbw=reading.averages[-1] if reading.averages else None,
        avg_failed=reading.average_failed,
        out_of_bounds=out_of_bounds,
        complete=bool(reading.averages),
        torn_rows=reading.table.torn,
        duplicate_lines=doubled,
        errors=tuple(reading.errors),
        **nccl_facts.of_log(log),
        problems=_problems(reading, rows),
    )


def _of_json(run: JsonRun, reading: _Reading) -> NcclTests:
    rows, doubled = nccl_facts.once(run.rows)
    log = reading.log
    claimed = Counter(rank for rank, *_ in run.devices)
    seen = nccl_facts.of_log(log)
    seen["env"] = {**run.env, **log.env}
    return NcclTests(
        form=run.form,
        collective=run.collective or nccl_facts.collective(rows, run.ranks),
        collectives=(run.collective,) if run.collective else (),
        runs=1,
        ranks=run.ranks or log.ranks,
        **nccl_facts.placed(run.devices, log),
        communicators=max(claimed.values(), default=1),
        gpu=None,
        nccl_version=run.nccl_version or log.version,
        tests_version=reading.tests_version,
        parameters=run.parameters,
        checked=nccl_facts.checked(rows, run.validation),
        rows=tuple(rows),
        **nccl_facts.peak(rows),
        avg_busbw=run.avg_busbw,
        avg_failed=run.avg_failed,
        out_of_bounds=run.out_of_bounds,
        complete=run.complete,
        torn_rows=0,
        duplicate_lines=doubled,
        errors=tuple(dict.fromkeys([*run.errors, *reading.errors])),
        **seen,
        problems=() if run.complete else ("the JSON is cut off",),
        unknown_fields=tuple(run.unknown_fields),
    )


def _problems(reading: _Reading, rows: list[Row]) -> tuple[str, ...]:
    found = []
    if reading.table.torn:
        found.append(f"{reading.table.torn} row{'s' if reading.table.torn > 1 else ''} cut off")
    if rows and not reading.table.header.known:
        found.append("the table's head is missing; columns are read by position")
    if any(side.busbw is None for row in rows for side in row.sides):
        found.append("a bandwidth is no number")
    return tuple(found)
