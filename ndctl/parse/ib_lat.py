"""Latency tests of perftest (write, read, send) -> facts, in microseconds."""

from __future__ import annotations

from dataclasses import dataclass

from ndctl.parse.perftest import figure, read, setting, sides
from ndctl.parse.printed import integer


@dataclass(frozen=True, slots=True)
class LatencyRow:
    bytes: int
    iterations: int | None
    t_min: float | None
    t_max: float | None
    t_typical: float | None
    t_avg: float | None
    t_stdev: float | None
    p99: float | None
    p99_9: float | None


@dataclass(frozen=True, slots=True)
class PerftestLatency:
    test: str | None
    device: str | None
    link_type: str | None
    rows: tuple[LatencyRow, ...]
    unit: str
    complete: bool
    torn_rows: int
    error: str | None
    errors: tuple[str, ...]
    frequency_warnings: int
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> PerftestLatency:
    """Facts of the output; `stderr` is read after it. Never raises."""
    reading = read(text if not stderr else f"{text}\n{stderr}")
    tables = [table for table in sides(reading.tables) if "t_avg" in table.columns]
    by_size: dict[int, LatencyRow] = {}
    for table in tables:
        for raw in table.rows:
            size = integer(raw["bytes"]) or 0
            by_size.setdefault(
                size,
                LatencyRow(
                    bytes=size,
                    iterations=integer(raw.get("iterations")),
                    t_min=figure(raw, "t_min"),
                    t_max=figure(raw, "t_max"),
                    t_typical=figure(raw, "t_typical"),
                    t_avg=figure(raw, "t_avg"),
                    t_stdev=figure(raw, "t_stdev"),
                    p99=figure(raw, "percentile_99"),
                    p99_9=figure(raw, "percentile_99.9"),
                ),
            )
    return PerftestLatency(
        test=reading.title,
        device=setting(reading, "Device"),
        link_type=setting(reading, "Link type"),
        rows=tuple(by_size.values()),
        unit="usec",
        complete=bool(tables) and reading.json_complete and any(table.closed for table in tables),
        torn_rows=sum(len(table.torn) for table in reading.tables),
        error=reading.errors[0] if reading.errors else None,
        errors=tuple(reading.errors),
        frequency_warnings=reading.frequency_warnings,
    )
