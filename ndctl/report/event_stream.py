"""Reading an event stream (JSON Lines, ndctl.event/1), also one that an earlier or a later ndctl wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ndctl.model.errors import ExitCode, NdctlError, Where
from ndctl.model.events import EVENT_SCHEMA, Event

_TEXTS = ("type", "status", "cluster", "rack", "node", "step", "message", "next_step")
_OBJECTS = ("data", "error")


@dataclass(frozen=True, slots=True)
class Told:
    """One line. time: RFC 3339, as written; run: "" when none is named; unknown: keys of a later ndctl."""

    time: str
    run: str
    event: Event
    unknown: Mapping[str, Any]


def read_events(lines: Iterable[str], source: str = "") -> Iterator[Told]:
    """Every event of a stream; empty lines and a last line that was cut off are passed over.

    What a later ndctl adds is kept in `unknown`; a key of the wrong kind counts as not told. Raises NdctlError (exit 2,
    with the line) for what is no event, and for another major version.
    """
    waiting: NdctlError | None = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if waiting is not None:
            raise waiting
        try:
            told = json.loads(line)
        except ValueError as error:
            # A writer that was killed leaves half a line, but only at the end.
            waiting = _wrong(source, number, f"no JSON: {error}")
            continue
        if not isinstance(told, dict) or told.get("schema") != EVENT_SCHEMA:
            named = told.get("schema") if isinstance(told, dict) else None
            raise _wrong(source, number, f"{named!r} is not {EVENT_SCHEMA!r}" if named else "no event of ndctl")
        yield _told(told)


def _told(told: Mapping[str, Any]) -> Told:
    texts = {key: value for key in _TEXTS if isinstance(value := told.get(key), str)}
    objects = {key: value for key in _OBJECTS if isinstance(value := told.get(key), dict)}
    fields: dict[str, Any] = {"type": "note", "status": "running", **texts, **objects}
    known = {*_TEXTS, *_OBJECTS, "schema", "time", "run"}
    time, run = (told.get(key) for key in ("time", "run"))
    return Told(
        time if isinstance(time, str) else "",
        run if isinstance(run, str) else "",
        Event(**fields),
        {key: value for key, value in told.items() if key not in known},
    )


def _wrong(source: str, number: int, why: str) -> NdctlError:
    return NdctlError(
        "events.line",
        why,
        hint="each line of an event stream is one JSON object",
        where=Where(source or "events", number),
        exit_code=ExitCode.USAGE,
    )
