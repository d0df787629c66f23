"""nvbandwidth output, text or JSON (-j), v0.2 to v0.8, whole or excerpts -> facts.

Layout facts: `output.cpp`, `json_output.cpp` and `inline_common.h` of NVIDIA/nvbandwidth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ndctl.parse.loose_json import objects
from ndctl.parse.printed import number
from ndctl.parse.tidy import tidy_lines

_RUNNING = re.compile(r"^\s*Running (\w{3,120})\.?\s*$")
_TITLE = re.compile(
    r"((?=.{0,200}(?:\((?:row|column)\)|memcpy|latency|multicast))[A-Za-z][^#|]{3,200}?)\s*\((GB/s|ns)\)\s*$"
)
_SUM = re.compile(r"^\s*(SUM|MIN|MAX|AVG)\s+(\w{3,120})\s+([-+\w.]{1,40})\s*$")
_PERF = re.compile(r"&&&& PERF (\w{3,120}) ([\d.eE+-]{1,40})")
_CELL = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|N/A|[-+]?nan|[-+]?inf", re.IGNORECASE)
_VERSION = re.compile(r"nvbandwidth Version:\s*(\S{1,30})")
_DEVICE = re.compile(r"(?:Device|device) (\d{1,4}): (.{1,80}?)(?:\s*\(([0-9a-fA-F:.]{5,20})\))?\s*$")
_PROCESS = re.compile(r"^\s*Process\s+(\d{1,5}) \((\S{1,120})\)")
_OUTCOME = re.compile(r"^\s*(Waived|Error|ERROR|Not Found):\s?(.{0,300})$")
_TROUBLE = re.compile(
    r"\[(?:CUDA_ERROR_|cudaError)\w+\]|NVML_ERROR|ASSERT in expression|Invalid value when checking|[Mm]ismatch"
    r"|ERROR: |command not found|cannot open shared object|Segmentation fault|core dumped|MPI_ABORT|not enough slots"
    r"|exited on signal|No such file|Permission denied|more processes than GPUs"
)
_NOTE = re.compile(r"NOTE: The reported results may not reflect")
# Words of the tool -> ours
_STATUS = {"passed": "passed", "waived": "waived", "running": "running", "not found": "not-found", "error": "error"}
_KNOWN = {
    "CUDA Runtime Version", "CUDA Driver Version", "Driver Version", "GPU Device info", "GPU Device list", "Hostname",
    "git_version", "version", "testcases", "error", "warning",
}  # fmt: skip

Matrix = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class BandwidthTest:
    """One table. values: cells in `unit` (GB/s, or ns for latencies), N/A is None; sum as the tool says.

    status: passed · waived · error · not-found · running (begun, and no end is shown)
    """

    name: str
    status: str
    values: Matrix
    sum: float | None
    unit: str = "GB/s"
    description: str = ""


@dataclass(frozen=True, slots=True)
class Nvbandwidth:
    """gpus: device lines as listed; multi-node versions list only the local ones, so their number proves nothing."""

    form: str
    version: str | None
    driver_version: str | None
    gpus: tuple[str, ...]
    processes: int
    tests: tuple[BandwidthTest, ...]
    waived: int
    errors: tuple[str, ...]
    has_head: bool
    complete: bool
    cut: bool
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    version: str | None = None
    driver: str | None = None
    gpus: list[str] = field(default_factory=list)
    processes: int = 0
    tests: list[BandwidthTest] = field(default_factory=list)
    waived: int = 0
    errors: list[str] = field(default_factory=list)
    noted: bool = False
    sums: bool = False
    running: str = ""
    run_has_table: bool = False
    # the table being read
    title: str = ""
    unit: str = ""
    rows: list[tuple[float | None, ...]] = field(default_factory=list)
    width: int = 0
    in_table: bool = False


def parse(text: str, stderr: str = "") -> Nvbandwidth:
    """Facts of the output; `stderr` is read after it. Never raises."""
    whole = text if not stderr else f"{text}\n{stderr}"
    if '"nvbandwidth"' in whole:
        found = _of_json(whole)
        if found is not None:
            return found
    return _of_text(whole)


def _of_text(text: str) -> Nvbandwidth:
    reading = _Reading()
    for line in tidy_lines(text):
        _take(reading, line)
    cut = _close_at_end(reading)
    return Nvbandwidth(
        form="text",
        version=reading.version,
        driver_version=reading.driver,
        gpus=tuple(dict.fromkeys(reading.gpus)),
        processes=reading.processes,
        tests=tuple(reading.tests),
        waived=reading.waived,
        errors=tuple(reading.errors),
        has_head=reading.version is not None,
        complete=reading.noted and not cut,
        cut=cut,
        problems=("the last table is cut off",) if cut else (),
    )


def _take(reading: _Reading, line: str) -> None:
    stripped = line.strip()
    if not stripped:
        return
    if run := _RUNNING.match(line):
        _close(reading, None, None)
        _unfinished(reading)
        reading.running, reading.run_has_table = run[1], False
    elif total := _SUM.match(line):
        if total[1] == "SUM":
            reading.sums = True
            _close(reading, total[2], number(total[3]))
    elif perf := _PERF.search(line):
        reading.sums = True
        _close(reading, perf[1], number(perf[2]))
    elif _TROUBLE.search(line):
        _error(reading, stripped)
    elif outcome := _OUTCOME.match(line):
        if outcome[1] == "Waived":
            reading.waived += 1
        else:
            _error(reading, stripped)
    elif _NOTE.search(line):
        if reading.tests or reading.rows:
            _close(reading, None, None)
            reading.noted = True
    elif reading.in_table and _row(reading, stripped):
        return
    elif title := _TITLE.match(stripped):
        _close(reading, None, None)
        reading.title, reading.unit, reading.in_table, reading.width = title[1].strip(), title[2], True, 0
    elif version := _VERSION.search(line):
        reading.version = version[1]
    elif line.startswith("Driver Version:"):
        reading.driver = stripped.partition(":")[2].strip()
    elif device := _DEVICE.search(line):
        process = _PROCESS.match(line)
        reading.processes += process is not None
        reading.gpus.append(f"{process[2] if process else ''} {device[1]}: {device[2]} {device[3] or ''}".strip())


def _row(reading: _Reading, stripped: str) -> bool:
    words = stripped.split()
    if not reading.rows and not reading.width and [*map(str, range(len(words)))] == words:
        reading.width = len(words)
        return True
    values = [word for word in words if _CELL.fullmatch(word)]
    label = len(words) - len(values)
    if label == 0 and len(values) > 1 and values[0].isdigit():
        values = values[1:]  # the row's own number
    elif not values or any(_CELL.fullmatch(word) for word in words[:label]) or (label and not reading.width):
        return False
    reading.rows.append(tuple(number(value) for value in values))
    return True


def _close(reading: _Reading, name: str | None, total: float | None) -> None:
    """The table above is whole; a sum without a table is a test of its own."""
    if not reading.rows and name is None:
        reading.in_table = False
        return
    found = name or reading.running or reading.title or "unnamed"
    unit = reading.unit or ("ns" if "latency" in found else "GB/s")
    reading.tests.append(BandwidthTest(found, "passed", tuple(reading.rows), total, unit, reading.title))
    reading.rows, reading.title, reading.unit, reading.in_table = [], "", "", False
    reading.run_has_table = True


def _unfinished(reading: _Reading) -> None:
    """A test that began and showed nothing."""
    if reading.running and not reading.run_has_table:
        status = "error" if reading.errors else "running"
        reading.tests.append(BandwidthTest(reading.running, status, (), None))
    reading.running = ""


def _close_at_end(reading: _Reading) -> bool:
    """Close what is open; True where the last table is cut: no sum though others have one, or a short row."""
    if reading.in_table or reading.rows:
        widths = {len(row) for row in reading.rows}
        short = bool(reading.rows) and bool(reading.width) and reading.width not in widths
        cut = (reading.sums and bool(reading.rows)) or not reading.rows or short
        if cut:
            name = reading.running or reading.title or "unnamed"
            unit = reading.unit or "GB/s"
            reading.tests.append(BandwidthTest(name, "running", tuple(reading.rows), None, unit, reading.title))
            return True
        _close(reading, None, None)
    begun = bool(reading.running) and not reading.run_has_table
    _unfinished(reading)
    return begun and not reading.errors


def _error(reading: _Reading, text: str) -> None:
    if text not in reading.errors and len(reading.errors) < 40:
        reading.errors.append(text[:400])


def _of_json(text: str) -> Nvbandwidth | None:
    for found in objects(text):
        top = found.value.get("nvbandwidth") if isinstance(found.value, dict) else None
        if not isinstance(top, dict):
            continue
        tests = tuple(_json_test(test) for test in top.get("testcases") or () if isinstance(test, dict))
        listed = top.get("GPU Device list", top.get("GPU Device info"))
        errors = [str(top["error"])] if top.get("error") else []
        return Nvbandwidth(
            form="json",
            version=_text(top.get("version")) or _text(top.get("git_version")),
            driver_version=_text(top.get("Driver Version")),
            gpus=tuple(map(str, listed)) if isinstance(listed, list) else (),
            processes=0,
            tests=tests,
            waived=sum(test.status == "waived" for test in tests),
            errors=tuple(errors),
            has_head=True,
            complete=found.complete,
            cut=not found.complete,
            problems=() if found.complete else ("the JSON is cut off or broken",),
            unknown_fields=tuple(sorted(str(key) for key in top if key not in _KNOWN)),
        )
    return None


def _json_test(test: Mapping[str, Any]) -> BandwidthTest:
    matrix = test.get("bandwidth_matrix")
    rows = tuple(
        tuple(number(cell) for cell in row)
        for row in (matrix if isinstance(matrix, list) else ())
        if isinstance(row, list)
    )
    description = _text(test.get("bandwidth_description")) or ""
    name = _text(test.get("name")) or "unnamed"
    status = str(test.get("status", "")).lower()
    return BandwidthTest(
        name=name,
        status=_STATUS.get(status, "error" if test.get("error") else status or ("passed" if rows else "running")),
        values=rows,
        sum=number(test.get("sum")),
        unit="ns" if "(ns)" in description or "latency" in name else "GB/s",
        description=description,
    )


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, (str, int)) and value != "" else None
