"""A Run as JUnit XML: one suite per rack, one case per finding, for a pipeline's test page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter

from ndctl.model.findings import Finding, RackResult, Run
from ndctl.model.status import Action, Status, Verdict
from ndctl.report.plain import REPLACEMENT, one_line, shown
from ndctl.report.words import BAD, measured

# Characters that XML 1.0 can't hold at all, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_KINDS = ("failure", "error", "skipped")
_COUNTED_AS = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def run_junit(run: Run) -> str:
    """fail → failure, unknown → error, skip → skipped; a warning passes with its text in system-out.

    What a root cause explains is skipped and names the root: one broken link is one failure, not sixty-four. Each
    rack's verdict is a case of its own, and so is a run that was interrupted or asked no rack: the page is green only
    where the run's exit status is 0. The text is ASCII with character references, so that it is right in any encoding.
    """
    root = ET.Element("testsuites", name=_line(f"ndctl {run.id}"))
    for rack in run.racks:
        suite = _suite(root, f"{rack.cluster}.{rack.name}", run, rack.seconds)
        names: Counter[tuple[str, str]] = Counter()
        for finding in rack.findings:
            case = _case(suite, finding.node or rack.name, f"{finding.check} {finding.subject}", names)
            _result(case, finding, rack)
        _verdict(_case(suite, rack.name, "verdict", names), rack)
    if not _is_red(root) and (run.exit_code or run.interrupted or not run.racks):
        suite = _suite(root, "ndctl.run", run, 0.0)
        why = "interrupted" if run.interrupted else "no rack was asked" if not run.racks else f"exit {run.exit_code}"
        ET.SubElement(_case(suite, "run", "verdict", Counter()), "error", type="incomplete", message=why)
    for element in [*root, root]:
        _count(element)
    ET.indent(root)
    body: bytes = ET.tostring(root, encoding="us-ascii")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body.decode()}\n'


def _suite(root: ET.Element, name: str, run: Run, seconds: float) -> ET.Element:
    return ET.SubElement(
        root, "testsuite", name=_line(name), timestamp=_line(run.started), time=f"{max(seconds, 0.0):.3f}"
    )


def _case(suite: ET.Element, class_name: str, name: str, names: Counter[tuple[str, str]]) -> ET.Element:
    """Readers keep one case of each name, so the second of a name gets a number."""
    key = (_line(class_name), _line(name).strip())
    names[key] += 1
    numbered = key[1] if names[key] == 1 else f"{key[1]} #{names[key]}"
    return ET.SubElement(suite, "testcase", classname=key[0], name=numbered, time="0")


def _result(case: ET.Element, finding: Finding, rack: RackResult) -> None:
    if finding.status in BAD and _explained(finding, rack):
        text = f"explained by {finding.caused_by}: {finding.status.value}: {finding.message}"
        ET.SubElement(case, "skipped", message=_line(text))
    elif finding.status is Status.WARN:
        ET.SubElement(case, "system-out").text = _clean(f"warn: {finding.message}\n{_details(finding)}")
    elif finding.status is not Status.PASS:
        kind = {Status.FAIL: "failure", Status.UNKNOWN: "error", Status.SKIP: "skipped"}[finding.status]
        made = ET.SubElement(case, kind, message=_line(finding.message))
        if kind != "skipped":
            made.set("type", _line(finding.check))
            made.text = _clean(_details(finding))


def _explained(finding: Finding, rack: RackResult) -> bool:
    """Only a root that is itself red on this page may take the blame."""
    return bool(finding.caused_by) and any(
        f"{other.check}@{other.node or other.subject}" == finding.caused_by
        and other.status in (Status.FAIL, Status.UNKNOWN)
        and not other.caused_by
        for other in rack.findings
    )


def _verdict(case: ET.Element, rack: RackResult) -> None:
    short = len(rack.nodes) < rack.expected_nodes
    if rack.verdict in (Verdict.ACCEPTED, Verdict.DEGRADED) and not short:
        return
    kind = "failure" if rack.verdict is Verdict.REJECTED else "error"
    usable = f"{len(rack.usable_nodes)} of {rack.expected_nodes} nodes usable, {len(rack.nodes)} there"
    ET.SubElement(case, kind, type=rack.verdict.value, message=_line(f"{rack.verdict.value}: {usable}"))


def _is_red(root: ET.Element) -> bool:
    return any(element.tag in ("failure", "error") for element in root.iter())


def _count(element: ET.Element) -> None:
    element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
    for kind in _KINDS:
        element.set(_COUNTED_AS[kind], str(sum(1 for _ in element.iter(kind))))


def _details(finding: Finding) -> str:
    pairs = {
        "measured": measured(finding),
        "cause": finding.cause,
        "explains": "; ".join(finding.explains),
        "action": "" if finding.action is Action.NONE else finding.action.value,
        "caused by": finding.caused_by,
        "health category": finding.health_category,
        "evidence": finding.evidence,
    }
    return "\n".join(f"{key}: {value}" for key, value in pairs.items() if value)


def _clean(text: str) -> str:
    return _NOT_XML.sub(REPLACEMENT, shown(text))


def _line(text: str) -> str:
    """Attributes hold one line: a reader may make blanks of line ends in them."""
    return _NOT_XML.sub(REPLACEMENT, one_line(text))
