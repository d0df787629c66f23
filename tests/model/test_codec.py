"""A Run through JSON and back, and the records of other versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from ndctl.model.codec import run_from_json, run_to_json
from ndctl.model.findings import Finding, NodeResult, RackResult, Run
from ndctl.model.jsonable import dumps
from ndctl.model.status import Action, Status, Verdict
from tests.model import builders
from tests.model.builders import finding, rack


def as_json(run: Run) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(dumps(run_to_json(run)))
    return parsed


def one_bad_rack() -> Run:
    return builders.run(rack(verdict=Verdict.REJECTED, findings=(finding(value=17, unit="links"),)), exit_code=7)


@settings(max_examples=80, deadline=None)
@given(builders.valid_runs)
def test_round_trip(run: Run) -> None:
    assert run_from_json(as_json(run)) == run


def test_the_id_is_called_run_and_stands_in_front() -> None:
    assert list(as_json(one_bad_rack()))[:3] == ["schema", "run", "started"]
    assert "id" not in as_json(one_bad_rack())


def test_same_run_same_bytes() -> None:
    assert dumps(run_to_json(one_bad_rack())) == dumps(run_to_json(one_bad_rack()))


def test_keys_of_a_newer_ndctl_are_left_out() -> None:
    data = as_json(one_bad_rack())
    for place in (data, data["racks"][0], data["racks"][0]["nodes"][0], data["racks"][0]["findings"][0]):
        place["of_the_future"] = {"a": [1]}
    assert run_from_json(data) == one_bad_rack()


def test_keys_an_older_ndctl_did_not_write_take_their_default() -> None:
    data = as_json(one_bad_rack())
    del data["interrupted"]
    for key in ("facts", "seconds", "expected_nodes", "usable_nodes"):
        del data["racks"][0][key]
    for key in ("explains", "caused_by", "action", "health_category", "value"):
        del data["racks"][0]["findings"][0][key]
    for one in data["racks"][0]["nodes"]:
        one.pop("detail"), one.pop("vm_id")
    read = run_from_json(data)
    assert read.interrupted is False
    assert read.racks[0].facts == {} and read.racks[0].seconds == 0.0
    assert read.racks[0].findings[0] == finding(unit="links")
    assert [one.name for one in read.racks[0].nodes] == [one.name for one in rack().nodes]


def test_words_of_a_newer_ndctl_are_read_as_the_most_careful_one() -> None:
    data = as_json(one_bad_rack())
    data["racks"][0]["verdict"] = "excellent"
    data["racks"][0]["nodes"][0]["status"] = "splendid"
    data["racks"][0]["findings"][0] |= {"status": "green", "action": "sing"}
    read = run_from_json(data).racks[0]
    assert (read.verdict, read.nodes[0].status) == (Verdict.INCOMPLETE, Status.UNKNOWN)
    assert (read.findings[0].status, read.findings[0].action) == (Status.UNKNOWN, Action.INVESTIGATE)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.pop("run"), "run: missing"),
        (lambda d: d.pop("racks"), "racks: missing"),
        (lambda d: d["racks"][0].pop("verdict"), r"racks\[0\].verdict: missing"),
        (lambda d: d["racks"][0]["nodes"][3].pop("name"), r"racks\[0\].nodes\[3\].name: missing"),
        (lambda d: d["racks"][0]["findings"][0].update(status=None), r"racks\[0\].findings\[0\].status: missing"),
        (lambda d: d.update(racks={}), "racks: expected a list"),
        (lambda d: d.update(racks=[7]), r"racks\[0\]: expected an object"),
        (lambda d: d.update(exit_code="7"), "exit_code: str"),
        (lambda d: d.update(exit_code=True), "exit_code: bool"),
        (lambda d: d["racks"][0]["findings"][0].update(value=[1]), r"findings\[0\].value: list"),
        (lambda d: d.update(schema="ndctl.run/2"), "schema: 'ndctl.run/2' is not 'ndctl.run/1'"),
    ],
)
def test_a_damaged_record_is_told_by_its_place(change: Any, place: str) -> None:
    data = as_json(one_bad_rack())
    change(data)
    with pytest.raises(ValueError, match=place):
        run_from_json(data)


@pytest.mark.parametrize("data", [None, [], "run", 7])
def test_what_is_no_object_is_no_run(data: Any) -> None:
    with pytest.raises(ValueError, match="JSON object"):
        run_from_json(data)


def test_a_null_where_a_number_was_not_finite_takes_the_default() -> None:
    data = as_json(builders.run(rack(seconds=float("nan"))))
    assert data["racks"][0]["seconds"] is None
    assert run_from_json(data).racks[0].seconds == 0.0


def test_every_field_of_the_model_can_be_read() -> None:
    """A field of a type that the reader does not know would only fail when an old record is shown."""
    from dataclasses import fields

    from ndctl.model.codec import _READERS

    for kind in (Run, RackResult, NodeResult, Finding):
        assert {str(one.type) for one in fields(kind)} <= set(_READERS)
