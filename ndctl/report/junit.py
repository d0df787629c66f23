"""A Run as JUnit XML: one suite per rack, one case per finding, for a pipeline's test page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from ndctl.model.findings import Finding, Run
from ndctl.model.status import Status, Verdict

# Characters that XML 1.0 can't hold at all, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _clean(text: object) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", str(text))


def _details(finding: Finding) -> str:
    pairs = {
        "measured": None if finding.value is None else f"{finding.value} {finding.unit}".strip(),
        "expected": finding.expected,
        "source": finding.source,
        "cause": finding.cause,
        "action": finding.action.value,
        "caused by": finding.caused_by,
        "evidence": finding.evidence,
    }
    return "\n".join(f"{key}: {value}" for key, value in pairs.items() if value)


def run_junit(run: Run) -> str:
    """fail → failure, unknown → error, skip → skipped; a warning passes with its text in system-out.

    The rack's verdict is a case of its own, so that a rack with missing nodes is never green.
    """
    root = ET.Element("testsuites", name=f"ndctl {_clean(run.id)}")
    for rack in run.racks:
        suite = ET.SubElement(root, "testsuite", name=_clean(f"{rack.cluster}.{rack.name}"), timestamp=run.started)
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        for finding in rack.findings:
            counts["tests"] += 1
            name = f"{finding.check} {finding.subject}"
            case = ET.SubElement(suite, "testcase", classname=_clean(finding.node or rack.name), name=_clean(name))
            if finding.status is Status.FAIL:
                counts["failures"] += 1
                ET.SubElement(case, "failure", message=_clean(finding.message)).text = _clean(_details(finding))
            elif finding.status is Status.UNKNOWN:
                counts["errors"] += 1
                ET.SubElement(case, "error", message=_clean(finding.message)).text = _clean(_details(finding))
            elif finding.status is Status.SKIP:
                counts["skipped"] += 1
                ET.SubElement(case, "skipped", message=_clean(finding.message))
            elif finding.status is Status.WARN:
                ET.SubElement(case, "system-out").text = _clean(f"warn: {finding.message}\n{_details(finding)}")
        counts["tests"] += 1
        case = ET.SubElement(suite, "testcase", classname=_clean(rack.name), name="verdict")
        if rack.verdict in (Verdict.REJECTED, Verdict.INCOMPLETE):
            kind = "failure" if rack.verdict is Verdict.REJECTED else "error"
            counts["failures" if kind == "failure" else "errors"] += 1
            usable = f"{len(rack.usable_nodes)} of {rack.expected_nodes} nodes usable"
            ET.SubElement(case, kind, message=_clean(f"{rack.verdict.value}: {usable}"))
        for key, number in counts.items():
            suite.set(key, str(number))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
