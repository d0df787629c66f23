"""`systemctl list-units --plain --no-legend` and the state of the whole: which units failed or keep being restarted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ndctl.parse.pasted import plain

_UNIT = re.compile(
    r"^[\s●×○*]{0,4}(?P<name>[\w:@.\\-]{1,255}\.(?:service|socket|mount|automount|timer|target|swap|path|device|slice|scope))"
    r"\s+(?P<load>[a-z-]{3,20})\s+(?P<active>[a-z-]{3,20})\s+(?P<sub>[a-z-]{3,24})(?:\s+(?P<text>.*))?$"
)
_STATE = re.compile(r"^state=(?P<state>[a-z-]{2,20})?$")


@dataclass(frozen=True, slots=True)
class Unit:
    name: str
    load: str
    active: str
    sub: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """state: what `systemctl is-system-running` says (running, degraded, starting, offline …), "" where not asked.

    units: those listed. problems: what systemctl said instead, e.g. that systemd is not what runs here.
    """

    state: str = ""
    units: tuple[Unit, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> UnitFacts:
    """Never raises."""
    state = ""
    units: list[Unit] = []
    strange: list[str] = []
    for line in plain(text).split("\n"):
        named = _STATE.match(line.strip())
        match = None if named else _UNIT.match(line.rstrip())
        if named:
            state = named["state"] or ""
        elif match:
            units.append(
                Unit(match["name"], match["load"], match["active"], match["sub"], (match["text"] or "").strip())
            )
        elif line.strip() and len(strange) < 5:
            strange.append(line.strip()[:120])
    complaints = [line.strip()[:160] for line in plain(stderr).split("\n") if line.strip()]
    return UnitFacts(state, tuple(units), tuple(complaints[:3]), tuple(strange))
