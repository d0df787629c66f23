"""Output of perftest (ib_write_bw, ib_read_bw, ib_send_bw and the _lat tests), text or JSON -> facts.

Layout facts: `src/perftest_parameters.h` and `.c` of linux-rdma/perftest, versions 5.x to 24.x. Columns are found by
their names, since names contain blanks, versions add columns, and rows hold tabs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ndctl.parse.loose_json import objects
from ndctl.parse.printed import integer, number
from ndctl.parse.tidy import tidy_lines

_COLUMN = re.compile(
    r"#\s?(?:bytes|iterations|sl\b)|(?:BW|MsgRate)(?: ?(?:peak|average|Port ?\d))?\s?\[[^\]]{1,20}\]"
    r"|t_\w{1,20}\s?\[[^\]]{1,12}\]|\d{2}(?:\.\d{1,3})?\s?% percentile\s?\[[^\]]{1,12}\]|tps average"
    r"|CPU_Util\s?\[%\]|(?<=\s)bytes(?=\s+#?iterations)|(?<=\s)iterations(?=\s)"
)
_BANNER = re.compile(r"([A-Za-z_*][A-Za-z_.*' -]{1,24}?)\s*:\s+(\S{1,40})")
_TITLE = re.compile(r"((?:RDMA_|SEND|Send|WRITE|READ|Atomic)[\w ]{0,60}?(?:BW|Latency|Lat) Test)")
_ADDRESS = re.compile(r"(local|remote) address:\s+LID\s+(\S{1,12})")
_NUMBERS = re.compile(r"^\s*\d[\s\d.eE+-]*$")
_JSON_LINE = re.compile(r'^\s*"?([A-Za-z_][\w.% ]{0,40}?)"?\s*:\s*"?([^",{}\[\]]{0,120})"?\s*,?\s*$')
_TROUBLE = re.compile(
    r"Completion with error|Failed status|Couldn't|Unable to|state is (?!Active)\w+|Failed to|No IB devices|not found"
    r"|Did not detect devices|Segmentation fault|below (?:bw|msg_rate) limit|Msg rate +is below|ERRNO|MTU.{0,20}higher"
    r"|Requested mtu is higher|Bus error|command not found|Permission denied|No space left|server side is closed"
    r"|mlx5: .{0,60}got completion with error|cannot open shared|Connection (?:refused|timed out)|No route to host"
    r"|Unexpected CM event|Incompatibility issue|versions? .{0,40}(?:mismatch|incompatible|differ)|data check failed",
    re.IGNORECASE,
)
_FREQUENCY = re.compile(r"Conflicting CPU frequency", re.IGNORECASE)
_MEBI = 2**20
# The tool's "MB" is 2**20 bytes: it divides by 0x100000.
UNITS = {"gb/sec": 1.0, "mb/sec": _MEBI * 8 / 1e9, "mib/sec": _MEBI * 8 / 1e9}
_MOST_KEPT = 40


@dataclass(slots=True)
class Table:
    """Rows under one head: column name -> printed text."""

    columns: tuple[str, ...]
    unit: str | None
    rows: list[dict[str, str]] = field(default_factory=list)
    closed: bool = False  # the line of dashes behind the rows was there
    torn: list[int | None] = field(default_factory=list)  # sizes of rows that were cut off


@dataclass(slots=True)
class Reading:
    tables: list[Table] = field(default_factory=list)
    banner: dict[str, str] = field(default_factory=dict)
    title: str | None = None
    local_lids: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    frequency_warnings: int = 0
    from_json: bool = False
    json_complete: bool = True
    unknown_columns: list[str] = field(default_factory=list)


def read(text: str) -> Reading:
    """Everything the text holds, of both sides where both print into it."""
    reading = Reading()
    lines = tidy_lines(text)
    if "test_info" in text or ("results" in text and "MsgSize" in text):
        _read_json(text, lines, reading)
    table: Table | None = None
    for line in lines:
        if ("bytes" in line and ("BW" in line or "t_" in line or "MsgRate" in line)) and (head := _head(line)):
            table = head
            reading.tables.append(table)
        elif line.strip().startswith("-----"):
            if table is not None and table.rows:
                table.closed = True
                table = None
        elif table is not None and line.strip() and _NUMBERS.match(line):
            _row(table, line)
        elif not line.strip():
            continue
        else:
            _other(line, reading)
    return reading


def _head(line: str) -> Table | None:
    found = [match[0] for match in _COLUMN.finditer(line)]
    names = tuple(column_name(text) for text in found)
    if "bytes" not in names or len(names) < 3:
        return None
    units = [text[text.index("[") + 1 : -1] for text in found if text.startswith("BW") and "[" in text]
    return Table(names, units[0] if units else None)


def column_name(text: str) -> str:
    """ "BW average[Gb/sec]" -> bw_average, "99.9% percentile[usec]" -> percentile_99.9, "#bytes" -> bytes."""
    name = text.partition("[")[0].strip().lstrip("# ").lower()
    if "percentile" in name:
        return f"percentile_{name.partition('%')[0].strip()}"
    if name == "msgrate":
        return "msg_rate"
    return name.replace(" ", "_")


def _row(table: Table, line: str) -> None:
    words = line.split()
    row = dict(zip(table.columns, words, strict=False))
    if len(words) != len(table.columns) or integer(row["bytes"]) is None:
        table.torn.append(integer(row.get("bytes")))
        return
    table.rows.append(row)


def _other(line: str, reading: Reading) -> None:
    if _FREQUENCY.search(line):
        reading.frequency_warnings += 1
    elif _TROUBLE.search(line):
        if line.strip() not in reading.errors and len(reading.errors) < _MOST_KEPT:
            reading.errors.append(line.strip()[:400])
    elif "address:" in line and (address := _ADDRESS.search(line)):
        if address[1] == "local":
            reading.local_lids.append(address[2])
    elif title := _TITLE.search(line):
        reading.title = reading.title or title[1]
    elif ":" in line:
        for name, value in _BANNER.findall(line):
            reading.banner.setdefault(name.strip(), value)


def _read_json(text: str, lines: Sequence[str], reading: Reading) -> None:
    """The report file, as valid JSON or as versions of 2023 wrote it: without quotes, with commas too many."""
    for found in objects(text):
        value = found.value
        results = value.get("results") if isinstance(value, dict) else None
        if isinstance(results, dict) and found.complete:
            info = value.get("test_info")
            flat = {**(info if isinstance(info, dict) else {}), **results}
            _json_row({str(key): str(item) for key, item in flat.items()}, reading)
    if reading.from_json:
        return
    flat = {}
    for line in lines:
        match = _JSON_LINE.match(line)
        if match:
            flat[match[1].strip()] = match[2].strip()
    if "MsgSize" in flat:
        _json_row(flat, reading)
        reading.json_complete = text.rstrip().endswith("}") and text.count("{") == text.count("}")


_JSON_NAMES = {
    "MsgSize": "bytes",
    "n_iterations": "iterations",
    "BW_peak": "bw_peak",
    "BW_average": "bw_average",
    "MsgRate": "msg_rate",
}


def _json_row(flat: Mapping[str, str], reading: Reading) -> None:
    names = {**_JSON_NAMES, **{key: key for key in flat if key.startswith(("t_", "percentile_", "tps_"))}}
    row = {ours: flat[theirs] for theirs, ours in names.items() if theirs in flat}
    if "bytes" not in row:
        return
    reading.from_json = True
    reading.tables.append(Table(tuple(row), unit_of(row), [row], closed=True))
    reading.title = reading.title or flat.get("test", "").replace("_", " ") or None
    for key, item in flat.items():
        if key not in names and key != "test":
            reading.banner.setdefault(key.strip().replace("_", " "), item)


def unit_of(row: Mapping[str, str]) -> str | None:
    """The unit of a row that does not name it (JSON): message rate times size says which one it is."""
    rate, size, average = number(row.get("msg_rate")), number(row.get("bytes")), number(row.get("bw_average"))
    if not rate or not size or not average:
        return None
    gigabits = rate * size * 8 / 1000
    for unit in ("Gb/sec", "MiB/sec"):
        if abs(average * UNITS[unit.lower()] - gigabits) <= 0.05 * gigabits + 0.01:
            return unit
    return None


def gigabits(value: float | None, unit: str | None) -> float | None:
    """A printed bandwidth in Gb/s; None where its unit is not known."""
    factor = UNITS.get((unit or "").lower().replace(" ", ""))
    return None if value is None or factor is None else value * factor


def setting(reading: Reading, *names: str) -> str | None:
    """A banner value by any of its names, however it is spaced."""
    wanted = {name.lower().replace(" ", "") for name in names}
    return next((value for key, value in reading.banner.items() if key.lower().replace(" ", "") in wanted), None)


def sides(tables: Iterable[Table]) -> list[Table]:
    """Tables with rows."""
    return [table for table in tables if table.rows]


def figure(row: Mapping[str, Any], name: str) -> float | None:
    return number(row.get(name))
