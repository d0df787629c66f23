"""The answer of `ndctl exec` as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ndctl.model.answers import OutcomeKind
from ndctl.model.errors import ExitCode
from ndctl.model.execution import EXEC_SCHEMA, Execution, Said
from ndctl.report import schemas
from ndctl.report.execution import blocks, execution_json, summary
from ndctl.report.identity import WORDS
from tests.report.test_same_output import own, said

VALIDATOR = Draft202012Validator(schemas.load("exec"))


def done(*answers: Said, **changes: object) -> Execution:
    made = Execution("lab", "lab.yaml", "uname -r", False, 60.0, 1_000_000, "2026-12-02T03:20:11Z", answers)
    return replace(made, **changes)  # type: ignore[arg-type]


def shown(execution: Execution, fold: bool = False, diff: bool = False) -> str:
    return "".join(f"{block.header}\n{block.body}" for block in blocks(execution, fold=fold, diff=diff))


REFUSED = said(3, "", outcome="refused", exit_code=None, detail="10.40.7.3:22 refused", hint="is sshd running?")


def test_equal_output_stands_once_under_its_nodes() -> None:
    execution = done(said(1), said(2), said(4, "", stderr="sh: nosuch: not found\n", exit_code=127), REFUSED)
    assert shown(execution) == (
        "---- rack07-n[01-02]  2 nodes\nok\n"
        "---- rack07-n04  exit 127\nstderr: sh: nosuch: not found\n"
        "---- rack07-n03  refused: 10.40.7.3:22 refused\nhint: is sshd running?\n"
    )
    assert summary(execution) == "4 nodes: 2 exit 0, 1 exit 127, 1 refused"
    assert summary(done(said(1))) == "1 node: 1 exit 0"


def test_no_output_a_missing_line_end_and_a_cut_are_said() -> None:
    assert shown(done(said(1, ""))) == "---- rack07-n01\n[no output]\n"
    assert shown(done(said(1, "x" * 8, truncated=True), cap_bytes=8)).endswith("xxxxxxxx\n[cut: more than 8 bytes]\n")
    both = said(1, "out", stderr="err")
    assert shown(done(both)) == "---- rack07-n01\nout\nstderr: err\n"


def test_what_was_folded_is_said() -> None:
    text = shown(done(own(1), own(2)), fold=True)
    assert text.startswith(
        "---- rack07-n[01-02]  2 nodes  equal but for names, addresses, MACs, serial numbers\n<node>"
    )


def test_differences_are_shown_against_the_most() -> None:
    execution = done(said(1, "a\nb\n"), said(2, "a\nb\n"), said(4, "a\nc\n", exit_code=3), REFUSED)
    assert shown(execution, diff=True) == (
        "---- rack07-n[01-02]  2 nodes\na\nb\n"
        "---- rack07-n04  exit 3  against rack07-n[01-02]\n-exit 0\n+exit 3\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
        "---- rack07-n03  refused: 10.40.7.3:22 refused\nhint: is sshd running?\n"
    )


def test_line_ends_alone_are_a_difference_too() -> None:
    execution = done(said(1, "a\n"), said(2, "a\n"), said(4, "a"))
    assert "the same lines" in shown(execution, diff=True)


def test_where_nobody_answered_there_is_nothing_to_compare() -> None:
    assert shown(done(REFUSED), diff=True) == shown(done(REFUSED))


@pytest.mark.parametrize(
    ("answers", "interrupted", "code"),
    [
        ([said(1)], False, ExitCode.OK),
        ([said(1), said(2, exit_code=1)], False, ExitCode.REJECTED),
        ([said(1), REFUSED], False, ExitCode.INCOMPLETE),
        ([said(2, exit_code=1), REFUSED], False, ExitCode.REJECTED),
        ([said(2, exit_code=1), REFUSED], True, ExitCode.INTERRUPTED),
        ([said(2, "", outcome="timed-out", exit_code=None)], False, ExitCode.INCOMPLETE),
    ],
)
def test_the_exit_status_is_of_the_worst(answers: list[Said], interrupted: bool, code: ExitCode) -> None:
    assert done(*answers, interrupted=interrupted).exit_code is code


def test_json_holds_every_nodes_own_text_also_when_folded() -> None:
    told = json.loads(execution_json(done(own(1), own(2), REFUSED), fold=True))
    assert [one["stdout"] for one in told["nodes"]] == [own(1).stdout, own(2).stdout, ""]
    assert told["exit_code"] == 8 and told["folded"] is True
    assert [(one["nodeset"], one["outcome"], one["exit_code"]) for one in told["groups"]] == [
        ("rack07-n[01-02]", "ok", 0),
        ("rack07-n03", "refused", None),
    ]
    assert "host_names" not in told["nodes"][0]


def test_the_schema_knows_every_word() -> None:
    schema = schemas.load("exec")
    assert schema["title"] == EXEC_SCHEMA
    assert set(schema["$defs"]["outcome"]["enum"]) == {kind.value for kind in OutcomeKind}
    assert set(schema["properties"]["groups"]["items"]["properties"]["replaced"]["items"]["enum"]) == set(WORDS)


_said = st.builds(
    said,
    st.integers(1, 18),
    st.text(max_size=40),
    stderr=st.text(max_size=20),
    outcome=st.sampled_from([kind.value for kind in OutcomeKind]),
    detail=st.text(max_size=20),
    exit_code=st.none() | st.integers(0, 255),
    truncated=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_said, min_size=1, max_size=6, unique_by=lambda one: one.name), st.booleans(), st.booleans())
def test_whatever_nodes_say_the_answer_is_as_published(answers: list[Said], fold: bool, interrupted: bool) -> None:
    execution = done(*answers, interrupted=interrupted)
    told = json.loads(execution_json(execution, fold=fold))
    assert [f"{one.json_path}: {one.message}" for one in VALIDATOR.iter_errors(told)] == []
    for block in blocks(execution, fold=fold, diff=interrupted):
        assert "\n" not in block.header and (not block.body or block.body.endswith("\n"))
