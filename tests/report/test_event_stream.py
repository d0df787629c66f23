"""Today's reader reads yesterday's stream, tomorrow's, and one whose writer was killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ndctl.model.errors import NdctlError
from ndctl.model.events import Event
from ndctl.report.event_stream import read_events
from ndctl.report.json_text import event_json

FIRST = Path(__file__).parents[1] / "captures" / "events" / "first.jsonl"
TIME = "2026-12-02T03:20:00Z"


def test_the_first_stream_ever_written_is_read() -> None:
    plan, deploy, collect, note = read_events(FIRST.read_text().splitlines())
    assert (plan.time, plan.run) == ("2026-11-30T09:14:02Z", "2026-11-30T09-14-01")
    assert plan.event == Event("plan", "started", cluster="swc-a", step="what-if", message="64 racks")
    assert (deploy.event.rack, deploy.event.message) == ("rack07", "scale set 18/18   running 16/18")
    assert collect.event.node == "rack07-n03" and collect.event.data["answers"] == 4
    assert note.run == "" and note.event.error == {} and note.event.next_step == ""


def test_what_is_written_today_is_read_as_it_was() -> None:
    events = [
        Event(
            "deploy",
            "failed",
            cluster="swc-a",
            rack="rack64",
            message="partial: 16 of 18 VMs",
            error={"code": "AllocationFailed", "class": "capacity", "retryable": True},
            next_step="ndctl deploy swc-a.yaml",
        ),
        Event("result", "done", cluster="swc-a", data={"exit_code": 6}),
    ]
    lines = [event_json(event, TIME, "r1") for event in events]
    told = list(read_events(lines))
    assert [one.event for one in told] == events
    assert all((one.time, one.run, one.unknown) == (TIME, "r1", {}) for one in told)


def test_what_a_later_version_adds_is_kept_and_does_no_harm() -> None:
    line = json.dumps(
        {"schema": "ndctl.event/1", "time": TIME, "type": "orbit", "status": "rising", "rack": 7, "altitude_km": 400}
    )
    (told,) = read_events([line])
    assert (told.event.type, told.event.status, told.event.rack) == ("orbit", "rising", "")
    assert told.unknown == {"altitude_km": 400}


def test_a_writer_that_was_killed_leaves_half_a_line_at_the_end_only() -> None:
    whole = event_json(Event("note", "done", message="x"), TIME)
    assert len(list(read_events([whole, whole[:30]]))) == 1
    assert len(list(read_events([whole, "", whole[:30], ""]))) == 1
    with pytest.raises(NdctlError, match="no JSON") as error:
        list(read_events([whole, whole[:30], whole], "stream.jsonl"))
    assert str(error.value.where) == "stream.jsonl:2" and error.value.exit_code == 2


@pytest.mark.parametrize("line", ['{"schema": "ndctl.event/2"}', "[1]", '{"time": "x"}', '"ndctl.event/1"'])
def test_what_is_no_event_of_this_version_is_refused(line: str) -> None:
    with pytest.raises(NdctlError):
        list(read_events([line]))
