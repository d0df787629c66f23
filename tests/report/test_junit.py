"""JUnit XML that strict readers take, with right counts, and green only where the run is."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
import xml.parsers.expat
from collections import Counter

import pytest
from hypothesis import given, settings

from ndctl.model.findings import RackResult, Run
from ndctl.model.status import Action, Status, Verdict
from ndctl.report.junit import run_junit
from tests.model import builders
from tests.model.builders import finding, node, rack

# Elements, their attributes and children as Jenkins' and Ant's schemas of JUnit XML have them in common.
ATTRIBUTES = {
    "testsuites": {"name", "tests", "failures", "errors", "skipped"},
    "testsuite": {"name", "timestamp", "time", "tests", "failures", "errors", "skipped"},
    "testcase": {"classname", "name", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
    "system-out": set(),
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}
RED = ("failure", "error")


def parsed(run: Run) -> ET.Element:
    """Read by expat, which refuses what is not well-formed, and held to the shape of JUnit's elements."""
    text = run_junit(run)
    assert text.isascii() and text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
    xml.parsers.expat.ParserCreate(namespace_separator=" ").Parse(text.encode(), True)
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        assert set(element.attrib) == ATTRIBUTES[element.tag]
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
    return root


def red(root: ET.Element) -> list[str]:
    return [
        f"{case.get('classname')} {case.get('name')}: {kind}"
        for case in root.iter("testcase")
        for kind in RED
        if case.find(kind) is not None
    ]


def assert_counts_are_right(root: ET.Element) -> None:
    for element in [root, *root.iter("testsuite")]:
        cases = list(element.iter("testcase"))
        assert int(element.attrib["tests"]) == len(cases)
        for kind, counted in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(element.attrib[counted]) == sum(1 for case in cases if case.find(kind) is not None)
        assert all(len(case) <= 1 for case in cases)


@settings(max_examples=100, deadline=None)
@given(builders.runs)
def test_any_run_is_read_by_a_strict_parser_and_counted_right(run: Run) -> None:
    root = parsed(run)
    assert_counts_are_right(root)
    assert len(list(root.iter("testcase"))) >= sum(len(one.findings) + 1 for one in run.racks)
    for suite in root:
        names = Counter((case.get("classname"), case.get("name")) for case in suite)
        assert set(names.values()) <= {1}


@settings(max_examples=100, deadline=None)
@given(builders.runs)
def test_what_is_not_all_right_is_never_green(run: Run) -> None:
    bad = (Verdict.REJECTED, Verdict.INCOMPLETE)
    wrong = (
        run.exit_code != 0
        or run.interrupted
        or not run.racks
        or any(one.verdict in bad or len(one.nodes) < one.expected_nodes for one in run.racks)
        or any(f.status in (Status.FAIL, Status.UNKNOWN) and not f.caused_by for one in run.racks for f in one.findings)
    )
    if wrong:
        assert red(parsed(run)) != []


def one(result: RackResult, exit_code: int = 0) -> list[str]:
    return red(parsed(builders.run(result, exit_code=exit_code)))


def test_an_accepted_rack_is_green() -> None:
    result = rack(findings=(finding(Status.PASS), finding(Status.SKIP, message="switched off")))
    assert one(result) == []


def test_a_degraded_rack_is_green_and_its_warning_can_be_read() -> None:
    warning = finding(Status.WARN, value=214, unit="events", expected="at most 0", source="NVIDIA, 2026-04")
    root = parsed(builders.run(rack(verdict=Verdict.DEGRADED, findings=(warning,))))
    assert red(root) == []
    assert root.findtext(".//system-out") == (
        "warn: link 8 down\nmeasured: 214 events, expected at most 0 (NVIDIA, 2026-04)"
    )


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (rack(verdict=Verdict.INCOMPLETE), ["rack07 verdict: error"]),
        (rack(nodes=tuple(node(7, n) for n in range(1, 18))), ["rack07 verdict: error"]),  # 17 nodes, 18 expected
        (rack(verdict=Verdict.REJECTED), ["rack07 verdict: failure"]),
    ],
)
def test_the_verdict_is_a_case_of_its_own(result: RackResult, told: list[str]) -> None:
    assert one(result, exit_code=8) == told


def test_a_run_that_asked_nothing_or_was_interrupted_is_not_green() -> None:
    assert red(parsed(builders.run())) == ["run verdict: error"]
    assert red(parsed(builders.run(rack(), interrupted=True, exit_code=130))) == ["run verdict: error"]
    assert red(parsed(builders.run(rack(), exit_code=8))) == ["run verdict: error"]


def test_one_broken_link_is_one_failure() -> None:
    root_cause = finding(explains=("XID 145 on 63 GPUs",), action=Action.REPLACE_AND_REPORT)
    explained = [
        finding(node=f"rack07-n{n:02d}", check="gpu.xid", caused_by="nvlink.links@rack07-n11") for n in range(1, 4)
    ]
    result = rack(verdict=Verdict.REJECTED, findings=(root_cause, *explained))
    root = parsed(builders.run(result, exit_code=7))
    assert red(root) == ["rack07-n11 nvlink.links GPU 2 (0018:01:00.0): failure", "rack07 verdict: failure"]
    skipped = [element.get("message") for element in root.iter("skipped")]
    assert skipped == ["explained by nvlink.links@rack07-n11: fail: link 8 down"] * 3
    text = root.findtext(".//failure") or ""
    assert "explains: XID 145 on 63 GPUs" in text and "action: replace-and-report" in text


@pytest.mark.parametrize("root_status", [Status.PASS, Status.WARN, Status.SKIP, None])
def test_only_a_root_that_is_red_takes_the_blame(root_status: Status | None) -> None:
    found = [finding(check="gpu.xid", node="rack07-n01", caused_by="nvlink.links@rack07-n11")]
    if root_status:
        found.append(finding(root_status))
    assert "rack07-n01 gpu.xid GPU 2 (0018:01:00.0): failure" in one(rack(findings=tuple(found)))


def test_unknown_is_an_error_not_a_failure() -> None:
    assert one(rack(findings=(finding(Status.UNKNOWN),))) == ["rack07-n11 nvlink.links GPU 2 (0018:01:00.0): error"]


def test_cases_of_one_name_are_numbered_since_readers_keep_one_of_each() -> None:
    root = parsed(builders.run(rack(findings=(finding(), finding(), finding()))))
    assert [case.get("name") for case in root.iter("testcase")] == [
        "nvlink.links GPU 2 (0018:01:00.0)",
        "nvlink.links GPU 2 (0018:01:00.0) #2",
        "nvlink.links GPU 2 (0018:01:00.0) #3",
        "verdict",
    ]


def test_texts_arrive_without_what_xml_can_not_hold() -> None:
    message = "\x1b[31mred\x1b[0m \x00\ud800 <&\"'> ]]> 🔥\r\nsecond"
    root = parsed(builders.run(rack(findings=(finding(message=message, cause=message),))))
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("message") == "red \ufffd\ufffd <&\"'> ]]> 🔥 second"
    assert failure.text == "cause: red \ufffd\ufffd <&\"'> ]]> 🔥\nsecond"


def test_same_run_same_bytes_in_any_locale() -> None:
    code = (
        "from tests.model.builders import *\n"
        "from ndctl.report.junit import run_junit\n"
        "print(run_junit(run(rack(findings=(finding(message='ü·🔥'),)))))"
    )
    printed = {
        subprocess.run([sys.executable, "-c", code], env=os.environ | extra, capture_output=True, check=True).stdout
        for extra in ({"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "7"})
    }
    assert len(printed) == 1
