"""`ubergemm` output (NVIDIA's GEMM load, shipped with DCGM 4) and Azure's table of many nodes' results -> facts.

What is public of the format: lines with `GFlops:1.7933e+06` that go on while it runs, and one that says "starting....",
behind which the tuning is over (Azure/ai-infrastructure-on-azure, gpu_test.slurm). A table has a head
`hostname,gpu0_gflops,…` or `hostname,gpu0,…` and a line a node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

from ndctl.parse.printed import number
from ndctl.parse.tidy import tidy_lines

_FIGURE = re.compile(r"\b([GT])Flop(?:s|/s)\s*[:=]\s*([-+\w.]{1,40})", re.IGNORECASE)
_STARTING = re.compile(r"\bstarting\b", re.IGNORECASE)
_HEAD = re.compile(r"^\s*host(?:name)?\s*(?:,\s*gpu\d{1,3}(?:_gflops)?\s*)+$", re.IGNORECASE)
_TROUBLE = re.compile(
    r"CUDA_ERROR_\w+|cudaError\w+|CUBLAS_STATUS_(?!SUCCESS)\w+|\b(?:error|failed|failure)\b|no devices? (?:were )?found"
    r"|out of memory|command not found|not found$|cannot open shared object|No such file|Permission denied"
    r"|Segmentation fault|core dumped|Killed",
    re.IGNORECASE,
)
# A GPU of today makes at most some 10^7 GFlops; what is far beyond is a torn or doubled number.
_MOST_TFLOPS = 1e6


@dataclass(frozen=True, slots=True)
class Ubergemm:
    """tflops: mean of the steady part, None where none is shown; figures: of the steady part, in TFLOPS, as printed.

    tuning: how many figures came before it; tables: host -> TFLOPS of its GPUs by index (None: no number)
    """

    tflops: float | None
    figures: tuple[float, ...]
    tuning: int
    started: bool
    tables: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()

    @property
    def lowest(self) -> float | None:
        return min(self.figures, default=None)


def parse(text: str, stderr: str = "") -> Ubergemm:
    """Facts of the output; `stderr` is read after it. Never raises."""
    before: list[float] = []
    after: list[float] = []
    tables: dict[str, tuple[float | None, ...]] = {}
    errors: list[str] = []
    problems: list[str] = []
    started, columns = False, 0
    if re.search(r"[:=,][ \t]*[-+\w.]*\Z", text[-60:]):
        # Without a line end the last number may be cut: 1.79 of 1.79e+06.
        text = text.rpartition("\n")[0]
        problems.append("the last line is cut off")
    for line in tidy_lines(text if not stderr else f"{text}\n{stderr}"):
        stripped = line.strip()
        if _HEAD.match(stripped):
            columns = stripped.count(",")
        elif columns and (row := _row(stripped, columns)):
            tables[row[0]] = row[1]
        elif figures := _FIGURE.findall(stripped):
            columns = 0
            for unit, printed in figures:
                _take(unit, printed, after if started else before, problems)
        elif _STARTING.search(stripped):
            # A second start begins a second run: the last one counts.
            before, after, started, columns = [*before, *after], [], True, 0
        elif _TROUBLE.search(stripped) and stripped not in errors and len(errors) < 20:
            errors.append(stripped[:300])
    if before and not after:
        problems.append("no figure after the tuning: the line 'starting' is missing, or the output ends there")
    return Ubergemm(
        tflops=fmean(after) if after else None,
        figures=tuple(after),
        tuning=len(before),
        started=started,
        tables=tables,
        errors=tuple(errors),
        problems=tuple(dict.fromkeys(problems))[:20],
    )


def _take(unit: str, printed: str, figures: list[float], problems: list[str]) -> None:
    value = number(printed)
    tflops = None if value is None else value / 1e3 if unit.upper() == "G" else value
    if tflops is None or not 0 <= tflops < _MOST_TFLOPS:
        problems.append(f"{printed[:40]!r} is no figure")
    else:
        figures.append(tflops)


def _row(line: str, columns: int) -> tuple[str, tuple[float | None, ...]] | None:
    host, *cells = (cell.strip() for cell in line.split(","))
    if len(cells) != columns or not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,120}", host):
        return None
    values = [number(cell) for cell in cells]
    return host, tuple(v / 1e3 if v is not None and 0 <= v / 1e3 < _MOST_TFLOPS else None for v in values)
