"""How a node's clock is kept: `chronyc tracking`, and `timedatectl show` or its plain form where there is no chrony."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ndctl.parse.pasted import lines

_OFFSET = re.compile(r"^(?P<seconds>\d{1,12}(?:\.\d{1,12})?) seconds (?P<way>slow|fast) of NTP time$")
_NUMBER = re.compile(r"[+-]?\d{1,12}(?:\.\d{1,12})?(?= seconds\b)")
# A hexadecimal id since chrony 2; before it an address.
_REFERENCE = re.compile(r"^(?P<id>[0-9A-F]{8}|[\d.]{7,15}) \((?P<name>[^)]*)\)$")
# No source at all, and chrony's local mode, in which it believes its own clock.
_NO_SOURCE = ("00000000", "0.0.0.0", "7F7F0101", "127.127.1.1")
_COMPLAINT = re.compile(r"^(?:\d{3} .{3,80}|.{0,60}[Cc]ould not .{3,80}|Failed to .{3,120})$")


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """offset_s: the clock's distance from NTP time in seconds, positive where it is fast.

    tool: "chrony", "timedatectl", or "" where the text is of neither.
    synced: what the tool says of itself; None where it says nothing.
    service: whether a service keeps the clock at all (timedatectl only).
    problems: what the tools said instead of an answer.
    """

    tool: str = ""
    synced: bool | None = None
    offset_s: float | None = None
    reference: str = ""
    stratum: int | None = None
    dispersion_s: float | None = None
    service: bool | None = None
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


_CHRONY = frozenset(
    [
        "reference id",
        "stratum",
        "ref time (utc)",
        "system time",
        "last offset",
        "rms offset",
        "frequency",
        "residual freq",
        "skew",
        "root delay",
        "root dispersion",
        "update interval",
        "leap status",
    ]
)
_TIMEDATE = frozenset(
    [
        "local time",
        "universal time",
        "rtc time",
        "time zone",
        "system clock synchronized",
        "ntp synchronized",
        "ntp service",
        "network time on",
        "rtc in local tz",
        "systemd-timesyncd.service active",
    ]
)
_SHOW = frozenset(["Timezone", "LocalRTC", "CanNTP", "NTP", "NTPSynchronized", "TimeUSec", "RTCTimeUSec"])


def parse(text: str, stderr: str = "") -> ClockFacts:
    """Never raises. Where both tools answered, chrony's word counts: it knows the offset."""
    chrony: dict[str, str] = {}
    timedate: dict[str, str] = {}
    problems: list[str] = []
    strange: list[str] = []
    for line in lines(f"{text}\n{stderr}"):
        bare = line.strip()
        name, colon, value = (part.strip() for part in bare.partition(":"))
        key, equals, shown = (part.strip() for part in bare.partition("="))
        if colon and name.lower() in _CHRONY:
            chrony[name.lower()] = value
        elif colon and name.lower() in _TIMEDATE:
            timedate[name.lower()] = value
        elif equals and key in _SHOW:
            timedate[key] = shown
        elif _COMPLAINT.match(bare):
            problems.append(bare[:160])
        elif bare and len(strange) < 5:
            strange.append(bare[:120])
    facts = ClockFacts()
    if chrony.get("leap status") or chrony.get("system time"):
        facts = _of_chrony(chrony)
    elif timedate:
        facts = _of_timedatectl(timedate)
    return replace(facts, problems=tuple(problems[:5]), unknown_fields=tuple(strange))


def _of_chrony(values: dict[str, str]) -> ClockFacts:
    leap = values.get("leap status", "")
    offset = _OFFSET.match(values.get("system time", ""))
    named = _REFERENCE.match(values.get("reference id", ""))
    dispersion = _NUMBER.match(values.get("root dispersion", ""))
    stratum = values.get("stratum", "")
    synced: bool | None = None
    if leap == "Not synchronised" or (named and named["id"] in _NO_SOURCE):
        synced = False
    elif leap in ("Normal", "Insert second", "Delete second"):
        synced = True
    return ClockFacts(
        tool="chrony",
        synced=synced,
        offset_s=float(offset["seconds"]) * (1 if offset["way"] == "fast" else -1) if offset else None,
        reference=named["name"] or named["id"] if named else "",
        stratum=int(stratum) if stratum.isascii() and stratum.isdigit() and len(stratum) < 4 else None,
        dispersion_s=float(dispersion[0]) if dispersion else None,
    )


_YES = {"yes": True, "no": False, "active": True, "inactive": False, "n/a": False}


def _of_timedatectl(values: dict[str, str]) -> ClockFacts:
    synced = [values.get(name, "") for name in ("NTPSynchronized", "system clock synchronized", "ntp synchronized")]
    service = [values.get(name, "") for name in ("NTP", "ntp service", "network time on")]
    return ClockFacts(
        tool="timedatectl",
        synced=next((_YES[word] for word in synced if word in _YES), None),
        service=next((_YES[word] for word in service if word in _YES), None),
    )
