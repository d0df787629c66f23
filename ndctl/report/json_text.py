"""What ndctl prints for machines: versioned JSON text, whose published schemas are in `report/schemas/`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndctl.model.codec import run_to_json
from ndctl.model.events import EVENT_SCHEMA, Event
from ndctl.model.findings import JUDGE_SCHEMA, Judgement, Run
from ndctl.model.jsonable import dumps, jsonable, plain_text

RUNS_SCHEMA = "ndctl.runs/1"


def run_json(run: Run) -> str:
    return plain_text(run_to_json(run))


def judgement_json(judgement: Judgement) -> str:
    return dumps({"schema": JUDGE_SCHEMA, **jsonable(judgement)})


def runs_json(record: str, lines: Sequence[object]) -> str:
    """The list of runs; `lines` are `record.store.RunLine`s of the file `record`."""
    return dumps({"schema": RUNS_SCHEMA, "record": record, "runs": lines})


def event_json(event: Event, time: str, run: str = "") -> str:
    """One event as one line (JSON Lines), without what is empty. time: RFC 3339."""
    told: dict[str, Any] = {"schema": EVENT_SCHEMA, "time": time, "run": run, **jsonable(event)}
    return dumps({key: value for key, value in told.items() if value not in ("", {})}, indent=None)
