"""Bandwidth tests of perftest (write, read, send) -> facts. Each size once; samples of an endless run stay apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ndctl.parse.perftest import Reading, Table, figure, gigabits, read, setting, sides
from ndctl.parse.printed import integer


@dataclass(frozen=True, slots=True)
class BandwidthRow:
    """bw_peak and bw_average as printed, in the output's unit; bw_average_gbps in Gb/s.

    bw_peak is 0 where the tool did not measure it (runs by duration). `sample` marks an interval of an endless run.
    """

    bytes: int
    iterations: int | None
    bw_peak: float | None
    bw_average: float | None
    bw_average_gbps: float | None
    msg_rate_mpps: float | None
    sample: bool = False


@dataclass(frozen=True, slots=True)
class PerftestBandwidth:
    """`error` is the first line that says what went wrong, `errors` all of them, each once."""

    test: str | None
    device: str | None
    link_type: str | None
    mtu: str | None
    qps: int | None
    connection: str | None
    bidirectional: bool
    lids: tuple[str, ...]
    rows: tuple[BandwidthRow, ...]
    unit: str | None
    both_sides: bool
    samples: int
    complete: bool
    torn_rows: int
    error: str | None
    errors: tuple[str, ...]
    frequency_warnings: int
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> PerftestBandwidth:
    """Facts of the output; `stderr` is read after it. Never raises."""
    reading = read(text if not stderr else f"{text}\n{stderr}")
    tables = [table for table in sides(reading.tables) if "bw_average" in table.columns]
    rows, samples = _rows(tables)
    torn = sum(len(table.torn) for table in reading.tables)
    problems = [f"{torn} rows cut off"] if torn else []
    units = {table.unit for table in tables}
    if len(units) > 1:
        problems.append("the two sides print different units")
    return PerftestBandwidth(
        test=reading.title,
        device=setting(reading, "Device"),
        link_type=setting(reading, "Link type"),
        mtu=setting(reading, "Mtu"),
        qps=integer(setting(reading, "Number of qps")),
        connection=setting(reading, "Connection type"),
        bidirectional="bidirectional" in (reading.title or "").lower(),
        lids=tuple(reading.local_lids),
        rows=tuple(rows),
        unit=tables[0].unit if tables else None,
        both_sides=len(tables) > 1,
        samples=samples,
        complete=_complete(reading, tables),
        torn_rows=torn,
        error=reading.errors[0] if reading.errors else None,
        errors=tuple(reading.errors),
        frequency_warnings=reading.frequency_warnings,
        problems=tuple(problems),
    )


def _rows(tables: Sequence[Table]) -> tuple[list[BandwidthRow], int]:
    """Rows of the first side, then sizes only the other side shows; how many are interval samples."""
    found: list[BandwidthRow] = []
    seen: set[int] = set()
    samples = 0
    for table in tables:
        here = [row for row in (_row(raw, table.unit) for raw in table.rows) if row.bytes not in seen]
        # within one table only an endless run prints a size again
        times = Counter([row.bytes for row in here] + [size for size in table.torn if size is not None])
        for row in here:
            again = times[row.bytes] > 1
            samples += again
            found.append(replace(row, sample=again))
        seen.update(row.bytes for row in here)
    return found, samples


def _row(raw: dict[str, str], unit: str | None) -> BandwidthRow:
    average = figure(raw, "bw_average")
    return BandwidthRow(
        bytes=integer(raw["bytes"]) or 0,
        iterations=integer(raw.get("iterations")),
        bw_peak=figure(raw, "bw_peak"),
        bw_average=average,
        bw_average_gbps=gigabits(average, unit),
        msg_rate_mpps=figure(raw, "msg_rate"),
    )


def _complete(reading: Reading, tables: Sequence[Table]) -> bool:
    return bool(tables) and reading.json_complete and any(table.closed for table in tables)
