"""Rows of nccl-tests' table, through all the forms it has had and the ways a paste breaks them.

Layout facts: `src/util.cu` and `src/common.cu` of NVIDIA/nccl-tests, versions 1 to 2.20. A row is size, count, type,
then redop and root where the version prints them, then the same measurements twice: out-of-place and in-place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ndctl.parse.printed import half_step, integer, number

_TYPES = r"u?int(?:8|16|32|64)?(?:_t)?|char|half|b?float(?:8|16|32|64)?|double|bf16|fp(?:16|32|64)|f(?:p)?8\w{0,8}"
ROW = re.compile(rf"^[\s>|]{{0,200}}(\d{{1,20}})\s+(\d{{1,20}})\s+({_TYPES})(?![\w.])(.*)$")
INSIDE = re.compile(rf"(?:^|\s)(\d{{1,20}}\s+\d{{1,20}}\s+(?:{_TYPES})\s.*)$")
_VALUE = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?|N/A|[-+]?nan|[-+]?inf", re.IGNORECASE)
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*$")
_PLAIN = ("time", "algbw", "busbw", "wrong")
_ONE_SIDE_GAP = " " * 24  # where only in-place was run, out-of-place is left blank


@dataclass(frozen=True, slots=True)
class Measure:
    """One side of a row: microseconds, GB/s, GB/s.

    wrong: how many elements were wrong; None where it was not checked or only `error` is known
    error: largest deviation, of the old versions that print it in place of a count
    checked: False for N/A
    """

    time_us: float | None
    algbw: float | None
    busbw: float | None
    wrong: int | None = None
    error: float | None = None
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    bytes: int
    count: int
    type: str
    redop: str | None
    root: int | None
    out_of_place: Measure | None
    in_place: Measure | None
    # how far the printed figures may be from the measured ones: time in us, GB/s, GB/s
    precision: tuple[float, float, float] = (0.005, 0.005, 0.005)

    @property
    def sides(self) -> tuple[Measure, ...]:
        return tuple(side for side in (self.out_of_place, self.in_place) if side is not None)


@dataclass(frozen=True, slots=True)
class Header:
    """What the table's head says of its columns."""

    measures: tuple[str, ...] = _PLAIN
    known: bool = False
    has_root: bool = False
    milliseconds: bool = False

    @property
    def counts_wrong(self) -> bool | None:
        """Whether the last column counts wrong elements; None where no head was seen."""
        return any("wrong" in name for name in self.measures) if self.known else None


def read_header(line: str) -> Header | None:
    """The head with the columns' names, or None for any other line."""
    if "algbw" not in line or ("size" not in line and "bytes" not in line):
        return None
    names = [name for name in line.replace("#", " ").split() if name not in ("timestamp",)]
    clocks = [place for place, name in enumerate(names) if name in ("time", "cputime")]
    if not clocks:
        return None
    end = clocks[1] if len(clocks) > 1 else len(names)
    measures = tuple("time" if name == "cputime" else name for name in names[clocks[0] : end])
    return Header(measures, len(clocks) > 1 and "busbw" in measures, has_root="root" in names[: clocks[0]])


@dataclass(slots=True)
class RowReader:
    """Puts rows together from lines that may hold only a part of one."""

    header: Header = field(default_factory=Header)
    rows: list[Row] = field(default_factory=list)
    torn: int = 0  # row beginnings that were never completed
    _pending: str = ""

    def feed(self, line: str) -> bool:
        """Take a line; True where it was (a part of) a row."""
        if ROW.match(line):
            self.flush()
            row = self._row(line)
            if row is None:
                self._pending = line
            else:
                self.rows.append(row)
            return True
        if self._pending and line.strip() and all(_VALUE.fullmatch(word) for word in line.split()):
            # a terminal breaks a row anywhere, a mail program only between words
            for joined in (self._pending + line, f"{self._pending} {line.strip()}"):
                row = self._row(joined)
                if row is not None:
                    self.rows.append(row)
                    self._pending = ""
                    return True
            self._pending = f"{self._pending} {line.strip()}"[:2000]
            return True
        return False

    def flush(self) -> None:
        """What is pending will not be completed any more."""
        if self._pending:
            self.torn += 1
            self._pending = ""

    def _row(self, line: str) -> Row | None:
        match = ROW.match(line)
        if match is None:
            return None
        rest = _STAMP.sub("", match[4])
        words = rest.split()
        redop = None
        if words and not _VALUE.fullmatch(words[0]):
            redop = words.pop(0)
        values = []
        for word in words:
            if not _VALUE.fullmatch(word):
                break  # something else was glued to the row's end
            values.append(word)
        width = len(self.header.measures)
        root = None
        if len(values) in (2 * width + 1, width + 1):
            root = integer(values.pop(0))
        elif not self._starts_with_time(int(match[1]), redop, values):
            return None  # the first value is the root, so the last one is missing
        if len(values) == 2 * width:
            out, inside = values[:width], values[width:]
        elif len(values) == width and _ONE_SIDE_GAP in rest:
            out, inside = [], values
        else:
            return None
        size = int(match[1])
        milliseconds = self.header.milliseconds or (not self.header.known and _is_ms(size, out or inside))
        return Row(
            bytes=size,
            count=int(match[2]),
            type=match[3],
            redop=redop,
            root=root,
            out_of_place=self._measure(out, milliseconds) if out else None,
            in_place=self._measure(inside, milliseconds) if inside else None,
            precision=self._precision(out or inside, milliseconds),
        )

    def _starts_with_time(self, size: int, redop: str | None, values: list[str]) -> bool:
        """Whether a row of even length has no root, or lost its last value."""
        if not values or values[0].startswith("-") or (self.header.has_root and redop):
            return False
        if self.header.known or len(values) < 2:
            return True
        time, algbw = number(values[0]), number(values[1])
        if not size or not time or not algbw or algbw < 0.1:
            return True
        return 0.5 < size / time / 1000 / algbw < 2 or _is_ms(size, values)

    def _measure(self, values: list[str], milliseconds: bool) -> Measure:
        by_name = dict(zip(self.header.measures, values, strict=True))
        time = number(by_name.get("time"))
        wrong, error, checked = self._correctness(by_name)
        return Measure(
            time_us=time * 1000 if time is not None and milliseconds else time,
            algbw=number(by_name.get("algbw")),
            busbw=number(by_name.get("busbw")),
            wrong=wrong,
            error=error,
            checked=checked,
        )

    def _correctness(self, by_name: dict[str, str]) -> tuple[int | None, float | None, bool]:
        text = next((by_name[name] for name in ("wrong", "error", "res") if name in by_name), None)
        value = number(text)
        if text is None or value is None:
            return None, None, False
        counts = self.header.counts_wrong
        if counts is None:
            # %g prints a count with an exponent only from 1e+06 on; 0e+00 and 1e-06 are deviations
            counts = "e" not in text.lower() or value >= 1e6
        if counts:
            return integer(text), None, True
        return (0 if value == 0 else None), value, True

    def _precision(self, values: list[str], milliseconds: bool) -> tuple[float, float, float]:
        by_name = dict(zip(self.header.measures, values, strict=True))
        steps = [half_step(by_name.get(name, "0")) for name in ("time", "algbw", "busbw")]
        return steps[0] * (1000 if milliseconds else 1), steps[1], steps[2]


def _is_ms(size: int, values: list[str]) -> bool:
    """Without a head, the unit of time follows from size and algbw: 2018's versions print milliseconds."""
    time, algbw = map(number, (*values, "", "")[:2])
    if not time or not algbw or algbw < 0.1:
        return False
    return 300 < size / (time * 1000) / algbw < 3000
