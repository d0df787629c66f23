"""What a `dcgmi diag` output means. A failure is named with its message; a skipped test proves nothing."""

from __future__ import annotations

import re

from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.dcgmi_diag import DcgmiDiag, DiagMessage, DiagTest, parse
from ndctl.profiles.schema import Profile

# (pattern of the message, likely cause, action); first match wins
_CAUSES = (
    (r"row remap.{0,20}pending|pending.{0,40}remap", "an uncorrectable memory error; a reset applies the row remap",
     Action.RESET_GPU),
    (r"row remap.{0,30}fail", "GPU memory has no spare rows left", Action.REPLACE_AND_REPORT),
    (r"persistence mode", "a setting of the host, no fault of the GPU: nvidia-smi -pm 1", Action.FIX_IMAGE),
    (r"environment variable|denylist|blacklist|nouveau|permission|graphics process|library",
     "software of the host, no fault of the GPU", Action.FIX_IMAGE),
    (r"fabric ?manager", "fabric manager not running or of another version than the driver", Action.INVESTIGATE),
    (r"imex", "IMEX daemon not ready, or no IMEX domain is active", Action.RESTART_IMEX),
    (r"nvlink.{0,40}down", "NVLinks down; expected where GPUs have no NVLink bridge", Action.INVESTIGATE),
    (r"uncontained|double.?bit|\bdbe\b|uncorrectable|faulty memory", "GPU memory", Action.REPLACE_AND_REPORT),
    (r"thermal|temperature", "cooling", Action.INVESTIGATE),
    (r"fallen off", "the GPU left the PCIe bus", Action.REPLACE_AND_REPORT),
    (r"pcie|replay", "PCIe link of the GPU", Action.INVESTIGATE),
)  # fmt: skip
_ENGINE = re.compile(r"host ?engine|establish a connection|unable to connect", re.IGNORECASE)


def judge(facts: DcgmiDiag, profile: Profile | None = None) -> list[Finding]:
    """Findings about one output. A profile adds nothing: DCGM holds its own limits."""
    findings = [_of_error(text) for text in facts.errors]
    findings += [_of_test(test) for test in facts.tests if test.status not in ("pass", "")]
    findings += [_silent(test) for test in facts.tests if test.status == "" and _complaints(test)]
    passed = [test for test in facts.tests if test.status == "pass"]
    if not facts.tests:
        if not findings:
            findings.append(_say("dcgm.no-result", Status.UNKNOWN, "diagnostic", "no test result in this text"))
        return findings
    if not facts.complete:
        findings.append(_say("dcgm.cut", Status.UNKNOWN, "diagnostic", "the output is cut off: tests may be missing"))
    findings += [
        _say("dcgm.message", Status.WARN, test.name, f"{test.name} passed, but warns: {message.text[:300]}")
        for test in passed
        for message in _complaints(test)[:1]
    ]
    if passed:
        findings.insert(0, _say("dcgm.passed", Status.PASS, "diagnostic", _count(facts, passed)))
    return findings


def _count(facts: DcgmiDiag, passed: list[DiagTest]) -> str:
    skipped = sum(1 for test in facts.tests if test.status in ("skip", "not-run"))
    return f"{len(passed)} of {len(facts.tests)} tests passed{f', {skipped} skipped' if skipped else ''}"


def _complaints(test: DiagTest) -> list[DiagMessage]:
    return [message for message in test.messages if message.level != "info" and message.text]


def _of_test(test: DiagTest) -> Finding:
    status = {"fail": Status.FAIL, "warn": Status.WARN, "skip": Status.SKIP, "not-run": Status.SKIP}.get(
        test.status, Status.UNKNOWN
    )
    bad = [name for name, word in test.entities.items() if word == test.status]
    messages = [message.text for message in _complaints(test)] or [message.text for message in test.messages]
    who = ", ".join(bad)
    text = f"{test.name}: {test.status}" + (f" ({who})" if who else "") + (f": {messages[0][:300]}" if messages else "")
    cause, action = _cause(f"{test.name} {' '.join(messages)}") if status is not Status.SKIP else ("", Action.NONE)
    return Finding(
        check="dcgm.test",
        status=status,
        subject=f"{test.name} {who}".strip(),
        message=text,
        cause=cause,
        action=action,
    )


def _silent(test: DiagTest) -> Finding:
    """Messages of a section whose result line was not seen."""
    text = _complaints(test)[0].text
    cause, action = _cause(text)
    return Finding(
        check="dcgm.test", status=Status.WARN, subject=test.name, message=text[:300], cause=cause, action=action
    )


def _cause(text: str) -> tuple[str, Action]:
    for pattern, cause, action in _CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            return cause, action
    return "", Action.INVESTIGATE


def _of_error(text: str) -> Finding:
    if _ENGINE.search(text):
        return Finding(
            check="dcgm.host-engine",
            status=Status.UNKNOWN,
            subject="nv-hostengine",
            message=f"DCGM's host engine was not reached, nothing was tested: {text[:200]}",
            cause="nvidia-dcgm.service (nv-hostengine) is not running; no fault of a GPU",
            action=Action.FIX_IMAGE,
        )
    return _say("dcgm.error", Status.UNKNOWN, "diagnostic", f"the diagnostic did not run: {text[:200]}")


def looks_like(text: str) -> float:
    if "DCGM Diagnostic" in text or "DCGM GPU Diagnostic" in text or "test_categories" in text:
        return 0.97
    if re.search(r"\| Diagnostic\s+\| Result", text) or "Successfully ran diagnostic" in text:
        return 0.97
    if re.search(r"[|+]-----  (?:Deployment|Hardware|Integration|Stress|Metadata)", text):
        return 0.95
    return 0.55 if "host engine" in text.lower() else 0.0


def _say(check: str, status: Status, subject: str, message: str) -> Finding:
    return Finding(check=check, status=status, subject=subject, message=message)


JUDGE = TextJudge(
    tool="dcgmi-diag",
    title="dcgmi diag -r N, table or JSON (-j), DCGM 2 to 4",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("dcgm-diag", "dcgmi", "dcgm"),
)
