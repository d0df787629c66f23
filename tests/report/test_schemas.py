"""The published schemas: right in themselves, and what ndctl prints is what they say."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ndctl.azure.whatif import ChangeKind
from ndctl.checks.azure_errors import FaultClass
from ndctl.checks.explain import EXPLAIN_SCHEMA
from ndctl.cli.checks import CHECKS_SCHEMA
from ndctl.cli.render import RENDER_SCHEMA
from ndctl.model.answers import OutcomeKind
from ndctl.model.bootstrapped import BOOTSTRAP_SCHEMA
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import EVENT_SCHEMA, Event
from ndctl.model.execution import EXEC_SCHEMA
from ndctl.model.findings import JUDGE_SCHEMA, RUN_SCHEMA, Finding, Judgement, NodeResult, RackResult, Run
from ndctl.model.first_contact import FIRST_CONTACT_SCHEMA
from ndctl.model.status import Action, Level, Status, Verdict
from ndctl.record.store import RunLine
from ndctl.report import schemas
from ndctl.report.json_text import RUNS_SCHEMA, event_json, judgement_json, run_json, runs_json
from ndctl.workflow.acceptance import ACCEPTANCE_SCHEMA
from ndctl.workflow.deploy_result import DEPLOY_SCHEMA, Fate
from ndctl.workflow.destroy import DESTROY_SCHEMA
from ndctl.workflow.nodes import NODES_SCHEMA
from ndctl.workflow.plan import PLAN_SCHEMA, Act
from ndctl.workflow.repair_result import REPAIR_SCHEMA
from ndctl.workflow.repair_state import Phase, RepairAction
from ndctl.workflow.report_node import REPORT_SCHEMA
from ndctl.workflow.unreachable import DIAGNOSIS_SCHEMA, Why
from tests.model import builders
from tests.model.builders import finding, rack

STARTED = "2026-12-02T03:20:11Z"


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schemas.load(name))


def faults(name: str, text: str) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(json.loads(text))]


def words(place: dict[str, Any]) -> set[Any]:
    return set(place["enum"])


@pytest.mark.parametrize("name", schemas.names())
def test_each_is_a_schema_that_describes_what_it_holds(name: str) -> None:
    schema = schemas.load(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:ndctl:schema:{name}:1"
    assert schema["title"] == schema["properties"]["schema"]["const"] == f"ndctl.{name}/1"
    assert set(schema["required"]) <= set(schema["properties"])


def test_there_is_one_for_every_kind_of_answer() -> None:
    kinds = {RUN_SCHEMA, JUDGE_SCHEMA, RUNS_SCHEMA, EVENT_SCHEMA, PLAN_SCHEMA, DEPLOY_SCHEMA, NODES_SCHEMA}
    kinds |= {DESTROY_SCHEMA, RENDER_SCHEMA, CHECKS_SCHEMA, EXPLAIN_SCHEMA, EXEC_SCHEMA}
    kinds |= {BOOTSTRAP_SCHEMA, ACCEPTANCE_SCHEMA, FIRST_CONTACT_SCHEMA}
    kinds |= {REPAIR_SCHEMA, DIAGNOSIS_SCHEMA, REPORT_SCHEMA}
    assert {schemas.load(name)["title"] for name in schemas.names()} >= kinds
    assert [schemas.load(kind)["title"] for kind in sorted(kinds)] == sorted(kinds)


@pytest.mark.parametrize("name", ["", "ndctl.run/2", "../run", "run.json", "inventory"])
def test_a_name_that_has_none(name: str) -> None:
    with pytest.raises(NdctlError, match="there is no schema") as caught:
        schemas.load(name)
    assert caught.value.exit_code is ExitCode.USAGE
    assert ", ".join(schemas.names()) in caught.value.hint


@settings(max_examples=60, deadline=None)
@given(builders.runs)
def test_runs_are_what_the_schema_says(run: Run) -> None:
    assert faults("run", run_json(run)) == []


@settings(max_examples=60, deadline=None)
@given(builders.judgements)
def test_judgements_are_what_the_schema_says(judgement: Judgement) -> None:
    assert faults("judge", judgement_json(judgement)) == []


def test_a_judged_text_is_what_the_schema_says() -> None:
    from ndctl.checks.judge import judge_text

    text = "GPU 0: NVIDIA GB300 (UUID: GPU-1)\n\t Link 0: 50 GB/s\n\t Link 1: <inactive>\n"
    for tool, told in (("auto", text), ("nvlink-status", text), ("auto", "nothing"), ("auto", "")):
        assert faults("judge", judgement_json(judge_text(tool, told))) == []


def test_lists_of_runs_are_what_the_schema_says() -> None:
    lines = [
        RunLine("b", STARTED, None, "quick", (), None, {}),
        RunLine("a", STARTED, STARTED, "standard", ("swc-a", "swc-b"), 7, {"accepted": 63, "rejected": 1}),
    ]
    assert faults("runs", runs_json("/s/runs.sqlite", lines)) == []
    assert faults("runs", runs_json("/s/runs.sqlite", [])) == []


events = st.builds(
    Event,
    type=st.sampled_from(
        ("preflight", "plan", "deploy", "rack", "collect", "job", "judge", "destroy", "bootstrap", "result", "note")
    ),
    status=st.sampled_from(("started", "running", "done", "failed", "waiting")),
    cluster=builders.texts,
    rack=builders.texts,
    node=builders.texts,
    step=builders.texts,
    message=builders.texts,
    data=st.dictionaries(builders.texts, builders.json_of(builders.texts), max_size=2),
    error=st.sampled_from(({}, {"code": "AllocationFailed", "class": "capacity", "retryable": True})),
    next_step=builders.texts,
)


@settings(max_examples=60, deadline=None)
@given(events, builders.texts)
def test_events_are_what_the_schema_says_and_one_line(event: Event, run: str) -> None:
    text = event_json(event, STARTED, run)
    assert "\n" not in text
    assert faults("event", text) == []


def test_an_event_tells_what_it_has_and_no_more() -> None:
    event = Event("collect", "failed", cluster="swc-a", rack="rack07", message="timed-out", data={"seconds": 0})
    assert json.loads(event_json(event, STARTED)) == {
        "schema": "ndctl.event/1",
        "time": STARTED,
        "type": "collect",
        "status": "failed",
        "cluster": "swc-a",
        "rack": "rack07",
        "message": "timed-out",
        "data": {"seconds": 0},
    }


def test_run_schema_names_every_field_and_word_of_the_model() -> None:
    """A field or word added to the model must be added to the schema, where people look for it."""
    schema = schemas.load("run")
    defs = schema["$defs"]

    def same(place: dict[str, Any], kind: type, renamed: dict[str, str] | None = None) -> None:
        names = {(renamed or {}).get(one.name, one.name) for one in fields(kind)}
        assert set(place["properties"]) - {"schema"} == names
        assert set(place["required"]) - {"schema"} == names

    same(schema, Run, {"id": "run"})
    same(defs["rack"], RackResult)
    same(defs["node"], NodeResult)
    same(defs["finding"], Finding)
    assert words(defs["status"]) == set(Status)
    assert words(defs["action"]) == set(Action)
    assert words(defs["rack"]["properties"]["verdict"]) == set(Verdict)
    assert words(defs["node"]["properties"]["outcome"]) == {*OutcomeKind, "not-asked"}
    assert words(schema["properties"]["level"]) == set(Level)


def test_the_others_name_every_field_too() -> None:
    run, judge, listed, event = (schemas.load(name) for name in ("run", "judge", "runs", "event"))
    assert set(judge["properties"]) - {"schema"} == {one.name for one in fields(Judgement)}
    assert set(event["properties"]) - {"schema", "time", "run"} == {one.name for one in fields(Event)}
    line = listed["properties"]["runs"]["items"]
    assert set(line["properties"]) == set(line["required"]) == {one.name for one in fields(RunLine)}
    # Files stand alone, so that an editor or validator needs one; what they share must not drift apart.
    for shared in ("status", "action", "finding"):
        assert judge["$defs"][shared] == run["$defs"][shared]
    assert listed["$defs"]["time"] == run["$defs"]["time"] == event["$defs"]["time"]


def test_the_words_of_deployments_are_those_of_the_program() -> None:
    plan, deploy, destroy = (schemas.load(name) for name in ("plan", "deploy", "destroy"))
    assert words(plan["$defs"]["step"]["properties"]["action"]) == {act.value for act in Act}
    assert set(plan["properties"]["counts"]["required"]) == {act.value for act in Act}
    assert words(plan["$defs"]["change"]["properties"]["change"]) == {kind.value for kind in ChangeKind}
    assert words(deploy["$defs"]["end"]["properties"]["status"]) == {fate.value for fate in Fate}
    assert words(plan["$defs"]["fault"]["properties"]["class"]) == {one.value for one in FaultClass}
    assert plan["$defs"]["fault"] == deploy["$defs"]["fault"] == destroy["$defs"]["fault"]


def test_the_words_of_repairs_are_those_of_the_program() -> None:
    repair, diagnosis = schemas.load("repair"), schemas.load("diagnosis")
    assert words(repair["properties"]["action"]) == set(RepairAction)
    assert words(repair["properties"]["nodes"]["items"]["properties"]["phase"]) == {"", *Phase}
    assert words(diagnosis["properties"]["nodes"]["items"]["properties"]["why"]) == set(Why)


def test_keys_of_a_newer_ndctl_are_allowed() -> None:
    data = json.loads(run_json(builders.run(rack(findings=(finding(),)))))
    for place in (data, data["racks"][0], data["racks"][0]["nodes"][0], data["racks"][0]["findings"][0]):
        place["of_the_future"] = 1
    assert list(validator("run").iter_errors(data)) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda d: d.update(schema="ndctl.run/2"), "$.schema"),
        (lambda d: d.update(started="yesterday"), "$.started"),
        (lambda d: d.update(exit_code=1), "$.exit_code"),
        (lambda d: d["racks"][0].update(verdict="fine"), "$.racks[0].verdict"),
        (lambda d: d["racks"][0]["findings"][0].update(value=[1]), "$.racks[0].findings[0].value"),
        (lambda d: d["racks"][0]["findings"][0].pop("status"), "$.racks[0].findings[0]"),
        (lambda d: d["racks"][0]["nodes"][0].update(name=""), "$.racks[0].nodes[0].name"),
    ],
)
def test_what_is_wrong_is_refused(change: Any, where: str) -> None:
    data = json.loads(run_json(builders.run(rack(findings=(finding(),)))))
    change(data)
    assert [error.json_path for error in validator("run").iter_errors(data)] == [where]
