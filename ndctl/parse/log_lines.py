"""Lines of kernel logs in every dress: dmesg, dmesg -T/-x/--time-format iso, journalctl, syslog, /dev/kmsg, pstore."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_LEVEL = r"(?:<\d{1,3}>|[a-z]{3,8}\s{0,3}:[a-z]{3,7}\s{0,4}: ?)?"
_BRACKET = re.compile(
    _LEVEL
    + r"\[\s*(?P<stamp>\d{1,9}\.\d{1,9}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})\](?:\[\s*[TC]\d{1,8}\])?\s?"
)
_ISO = re.compile(
    _LEVEL + r"(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\s?(?:Z|[+-]\d\d:?\d\d)?)\s+(?P<rest>.*)$"
)
_SYSLOG = re.compile(r"(?P<stamp>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)\s+(?P<rest>.*)$")
_HOST_AND_UNIT = re.compile(r"^(?P<host>\S{1,80}) (?P<unit>[\w.@/-]{1,60}(?:\[\d{1,10}\])?): ?(?P<rest>.*)$")
# `mlx5_core 0101:00:00.0 mlx5_ib0: …` of a log without hosts: a driver and its PCI device, no host and unit.
_DRIVER_AND_DEVICE = re.compile(r"^[\w-]{1,40} [0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")
_KMSG = re.compile(r"^(?P<prio>\d{1,5}),(?P<seq>\d{1,20}),(?P<stamp>\d{1,20}),[^;]{0,40};(?P<rest>.*)$")
_LEAD = re.compile(r"^[\s>|*$#-]{0,12}(?:\w[\w.-]{0,40}: {1,4}(?=[\[<]))?")


@dataclass(frozen=True, slots=True)
class LogLine:
    """time: as printed, "" where the line has none. seconds: of one clock within a log (since boot, or the epoch).

    shaped: the line has the dress of a kernel log. unit: who wrote it (kernel, systemd-networkd …).
    """

    text: str
    time: str = ""
    seconds: float | None = None
    host: str = ""
    unit: str = ""
    shaped: bool = False
    pstore: bool = False


def undress(line: str, *, timed: bool = True) -> LogLine:
    """Take the dress off one line; without `timed` its seconds may be left out, which take a third of the time. Never
    raises."""
    if line.startswith("{"):
        record = _json(line[:65536])
        if record is not None:
            return record
    line = line[:4096]
    start = _LEAD.match(line)
    body = line[start.end() :] if start and start[0].strip(" >|*$#-") == "" else line
    kmsg = _KMSG.match(body)
    if kmsg:
        return LogLine(kmsg["rest"], kmsg["stamp"], int(kmsg["stamp"]) / 1e6, shaped=True)
    bracket = _BRACKET.match(body)
    if bracket:
        stamp = bracket["stamp"]
        return LogLine(
            body[bracket.end() :],
            stamp,
            seconds_of(stamp) if timed else None,
            shaped=True,
            pstore=bool(re.match(r"<\d", body)),
        )
    for pattern in (_ISO, _SYSLOG):
        match = pattern.match(body)
        if match:
            return _with_host(match["rest"], match["stamp"].strip(), timed)
    bare = _HOST_AND_UNIT.match(body)
    if bare and bare["unit"].partition("[")[0] == "kernel":
        return _with_host(body, "", timed)
    return LogLine(body.strip() if body.strip() else "")


def _with_host(rest: str, stamp: str, timed: bool) -> LogLine:
    host = unit = ""
    named = _HOST_AND_UNIT.match(rest)
    if named and not rest.startswith(("NVRM:", "[")) and not _DRIVER_AND_DEVICE.match(rest):
        host, unit, rest = named["host"], named["unit"].partition("[")[0], named["rest"]
    inner = _BRACKET.match(rest)
    seconds = seconds_of(stamp) if timed else None
    if inner:
        rest = rest[inner.end() :]
        if seconds is None and timed:
            stamp, seconds = inner["stamp"], seconds_of(inner["stamp"])
    return LogLine(rest, stamp, seconds, host, unit, shaped=True)


def _json(line: str) -> LogLine | None:
    """One record of `journalctl -o json`."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("MESSAGE"), str):
        return None
    stamp = str(record.get("__REALTIME_TIMESTAMP") or "")[:20]
    unit = str(record.get("SYSLOG_IDENTIFIER") or "")
    seconds = int(stamp) / 1e6 if stamp.isdigit() else None
    return LogLine(record["MESSAGE"][:4096], stamp, seconds, str(record.get("_HOSTNAME") or ""), unit, shaped=True)


def seconds_of(stamp: str) -> float | None:
    """Seconds of a printed time: since boot for `[1234.5]`, else of the calendar (a year is guessed for syslog)."""
    stamp = stamp.strip()
    try:
        if re.fullmatch(r"\d{1,9}\.\d{1,9}", stamp):
            return float(stamp)
        if stamp[:1].isdigit():
            iso = stamp.replace(",", ".").replace(" ", "T", 1).replace(" ", "")
            iso = re.sub(r"(\.\d{6})\d+", r"\1", iso)
            moment = datetime.fromisoformat(iso)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        words = stamp.split()
        if len(words) == 5:
            month, day, clock, year = _MONTHS[words[1]], int(words[2]), words[3], int(words[4])
        else:
            month, day, clock, year = _MONTHS[words[0]], int(words[1]), words[2], 2000
        hour, minute, second = clock.split(":")
        whole, _, fraction = second.partition(".")
        moment = datetime(year, month, day, int(hour), int(minute), int(whole), tzinfo=UTC)
        return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
    except (ValueError, KeyError, IndexError, OverflowError):
        return None


def numbered(text: str, keywords: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """(start, end) of the lines that hold a keyword, each line once, found by fast search in the lower-cased text.

    A log of tens of megabytes has few interesting lines; only those are taken apart.
    """
    lowered = text.lower() if text.isascii() else "".join(c.lower() if c.isascii() else c for c in text)
    starts: dict[int, int] = {}
    for keyword in keywords:
        position = lowered.find(keyword)
        while position >= 0:
            begin = lowered.rfind("\n", 0, position) + 1
            end = lowered.find("\n", position)
            end = len(text) if end < 0 else end
            starts[begin] = end
            position = lowered.find(keyword, end)
    yield from sorted(starts.items())
