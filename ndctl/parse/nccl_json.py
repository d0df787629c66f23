"""nccl-tests' results as JSON: the -J file (version 3 of its form), a fork's one-line form, and rccl-tests' JSON lines.

Form facts: `src/util.cu` of NVIDIA/nccl-tests, its pull request 318, pull request 93 of ROCm/rccl-tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ndctl.parse.loose_json import objects
from ndctl.parse.nccl_rows import Measure, Row
from ndctl.parse.printed import integer, number

_EXACT = (5e-7, 5e-7, 5e-7)  # %lf prints six decimals
_KNOWN = {
    "version", "start_time", "end_time", "args", "env", "nccl_version", "config", "results", "out_of_bounds",
    "average_bus_bandwidth", "errors",
}  # fmt: skip


@dataclass(slots=True)
class JsonRun:
    form: str
    complete: bool
    rows: list[Row] = field(default_factory=list)
    collective: str | None = None
    devices: list[tuple[int, str, int]] = field(default_factory=list)  # rank, host, device
    ranks: int | None = None
    validation: int | None = None
    parameters: dict[str, int] = field(default_factory=dict)
    out_of_bounds: int | None = None
    avg_busbw: float | None = None
    avg_failed: bool = False
    nccl_version: str | None = None
    errors: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    unknown_fields: list[str] = field(default_factory=list)


def read_json(text: str) -> JsonRun | None:
    """The run a JSON text holds, None where no such JSON is in it."""
    rccl: JsonRun | None = None
    for found in objects(text):
        for value in found.value if isinstance(found.value, list) else [found.value]:
            if not isinstance(value, dict):
                continue
            if "results" in value or ("config" in value and "nccl_version" in value):
                return _upstream(value, found.complete)
            if isinstance(value.get("benchmark"), list):
                return _fork(value, found.complete)
            if "busBw" in value and "size" in value:
                rccl = rccl or JsonRun("rccl-json", True)
                rccl.complete &= found.complete
                if found.complete:
                    _rccl(rccl, value)
    return rccl


def _upstream(value: Mapping[str, Any], complete: bool) -> JsonRun:
    config = _object(value.get("config"))
    run = JsonRun("json", complete and "average_bus_bandwidth" in value)
    run.rows = [row for entry in _list(value.get("results")) for row in _upstream_row(entry)]
    arguments = [str(argument) for argument in _list(value.get("args"))]
    if arguments and arguments[0].rsplit("/", 1)[-1].removesuffix("_perf"):
        run.collective = arguments[0].rsplit("/", 1)[-1].removesuffix("_perf")
    for device in _list(config.get("devices")):
        device = _object(device)
        rank, number_of = integer(device.get("rank")), integer(device.get("device"))
        if rank is not None:
            run.devices.append((rank, str(device.get("hostname", "")), number_of if number_of is not None else -1))
    per_process = (integer(config.get("nthreads")) or 1) * (integer(config.get("ngpus")) or 1)
    # one device a process is listed; ranks are processes times what each drives
    run.ranks = len(run.devices) * per_process if run.devices else None
    run.validation = integer(config.get("validation"))
    for theirs, ours in (("minimum_bytes", "minBytes"), ("maximum_bytes", "maxBytes"), ("iterations", "iters")):
        if (size := integer(config.get(theirs))) is not None:
            run.parameters[ours] = size
    bounds, average = _object(value.get("out_of_bounds")), _object(value.get("average_bus_bandwidth"))
    run.out_of_bounds = integer(bounds.get("count"))
    run.avg_busbw = number(average.get("bandwidth"))
    run.avg_failed = average.get("okay") in ("false", False)
    run.nccl_version = _version(integer(value.get("nccl_version")))
    # "no error" is among them as what the last-error call says after none
    run.errors = [text for text in map(str, _list(value.get("errors"))) if text and text.lower() != "no error"]
    for setting in map(str, _list(value.get("env"))):
        name, _, content = setting.partition("=")
        if name.startswith("NCCL_"):  # the rest of an environment may hold secrets and is nobody's business
            run.env[name] = content
    run.unknown_fields = sorted(key for key in value if key not in _KNOWN)
    return run


def _upstream_row(entry: Any) -> Iterator[Row]:
    entry = _object(entry)
    size = integer(entry.get("size"))
    if size is None:
        return
    yield Row(
        bytes=size,
        count=integer(entry.get("count")) or 0,
        type=str(entry.get("type", "")),
        redop=_word(entry.get("redop")),
        root=integer(str(entry.get("root", "")).strip()),
        out_of_place=_upstream_side(entry.get("out_of_place")),
        in_place=_upstream_side(entry.get("in_place")),
        precision=_EXACT,
    )


def _upstream_side(side: Any) -> Measure | None:
    if not isinstance(side, dict) or not side:
        return None
    wrong = side.get("nwrong")
    return Measure(
        time_us=number(side.get("time", side.get("cpu_time"))),
        algbw=number(side.get("alg_bw")),
        busbw=number(side.get("bus_bw")),
        wrong=integer(wrong),
        checked=number(wrong) is not None,
    )


def _fork(value: Mapping[str, Any], complete: bool) -> JsonRun:
    run = JsonRun("json-fork", complete)
    run.nccl_version = _word(value.get("version"))
    for entry in _list(value.get("benchmark")):
        for size, row in _object(entry).items():
            row = _object(row)
            if integer(size) is None or "oop_time" not in row:
                continue
            run.rows.append(
                Row(
                    bytes=integer(size) or 0,
                    count=integer(row.get("count")) or 0,
                    type=str(row.get("type", "")),
                    redop=_word(row.get("redop")),
                    root=integer(row.get("root")),
                    out_of_place=_fork_side(row, "oop"),
                    in_place=_fork_side(row, "ip"),
                    precision=_EXACT,
                )
            )
    for key, content in value.items():
        if key not in ("identifier", "version", "benchmark"):
            run.unknown_fields.append(str(key))
            if "avg" in key.lower() or "average" in key.lower():
                run.avg_busbw = number(content)
    return run


def _fork_side(row: Mapping[str, Any], prefix: str) -> Measure | None:
    if f"{prefix}_busbw" not in row:
        return None
    wrong = row.get(f"{prefix}_error")
    return Measure(
        time_us=number(row.get(f"{prefix}_time")),
        algbw=number(row.get(f"{prefix}_algbw")),
        busbw=number(row.get(f"{prefix}_busbw")),
        wrong=integer(wrong),
        checked=number(wrong) is not None,
    )


def _rccl(run: JsonRun, value: Mapping[str, Any]) -> None:
    """Each line is one side of one size: an in-place line completes the row before it."""
    size = integer(value.get("size"))
    if size is None:
        return
    wrong = value.get("#wrong", value.get("wrong"))
    side = Measure(
        time_us=number(value.get("time")),
        algbw=number(value.get("algBw")),
        busbw=number(value.get("busBw")),
        wrong=integer(wrong),
        checked=number(wrong) is not None,
    )
    in_place = bool(integer(value.get("inPlace")))
    run.ranks = integer(value.get("gpus")) or run.ranks
    run.collective = run.collective or _snake(value.get("name"))
    last = run.rows[-1] if run.rows else None
    if in_place and last is not None and last.bytes == size and last.in_place is None:
        run.rows[-1] = Row(
            last.bytes, last.count, last.type, last.redop, last.root, last.out_of_place, side, last.precision
        )
        return
    redop, type_name = _word(value.get("redop")), str(value.get("type", ""))
    out, inside = (None, side) if in_place else (side, None)
    run.rows.append(Row(size, integer(value.get("count")) or 0, type_name, redop, None, out, inside, _EXACT))


def _snake(name: Any) -> str | None:
    """AllReduce -> all_reduce, AlltoAll -> alltoall."""
    text = str(name or "")
    if text.lower() == "alltoall":
        return "alltoall"
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(text)) or None


def _version(code: int | None) -> str | None:
    """22907 -> 2.29.7, as NCCL packs its version since 2.9."""
    if code is None or code < 20000:
        return None
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def _word(value: Any) -> str | None:
    return str(value) if isinstance(value, str) and value else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
