"""What the log of nvidia-imex means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.imex_log import ImexLog, ImexLogLine, numbers, parse
from ndctl.profiles.schema import Profile

_TOO_OLD = re.compile(r"requires? .{0,40}version >= ?([\d.]+).{0,40}found ([\d.]+)")


def judge(facts: ImexLog, profile: Profile | None) -> Sequence[Finding]:
    findings = []
    old = next((m for line in facts.errors if (m := _TOO_OLD.search(line.text))), None)
    if old and numbers(old[2]) < numbers(old[1]):
        findings.append(
            Finding(
                check="imex.driver-too-old",
                status=Status.FAIL,
                subject="NVIDIA driver",
                value=old[2],
                expected=f"at least {old[1]}",
                source="the same log",
                message=f"driver {old[2]} is older than the {old[1]} that IMEX here requires",
                cause="image with an older driver: no hardware fault",
                action=Action.FIX_IMAGE,
            )
        )
    elif facts.errors:
        findings.extend(_errors(facts.errors, facts.ready))
    if facts.warnings and not findings:
        message = f"{len(facts.warnings)} warnings, the last: “{facts.warnings[-1].text[:160]}”"
        findings.append(Finding(check="imex.log-warnings", status=Status.WARN, subject="nvidia-imex", message=message))
    if findings:
        return findings
    if facts.ready:
        message = f"{facts.lines} lines, no error, and a connection or READY state is reported"
        return [Finding(check="imex.log", status=Status.PASS, subject="nvidia-imex", message=message)]
    what = f"{facts.lines} lines of start-up, no result yet" if facts.lines else "no line of an IMEX log"
    return [Finding(check="imex.log-none", status=Status.UNKNOWN, subject="text", message=f"{what}: nothing to judge")]


def _errors(errors: Sequence[ImexLogLine], ready: bool) -> list[Finding]:
    """An error before a later READY is history."""
    last = errors[-1]
    return [
        Finding(
            check="imex.log-errors",
            status=Status.WARN if ready else Status.FAIL,
            subject="nvidia-imex",
            value=len(errors),
            unit="errors",
            message=f"{len(errors)} errors, the last{f' at {last.time}' if last.time else ''}: “{last.text[:160]}”",
            cause="see the first error; peers not reachable, wrong nodes_config.cfg, or driver trouble",
            action=Action.WATCH if ready else Action.RESTART_IMEX,
        )
    ]


def looks_like(text: str) -> float:
    """Its first line, or its dress with IMEX's words."""
    if "IMEX version" in text or "IMEX Log initializing" in text:
        return 0.9
    return (
        0.7 if re.search(r"IMEXDaemon|nvidia-imex", text) and re.search(r"^[IWEF]\d{4} ", text, re.MULTILINE) else 0.0
    )


JUDGE = TextJudge(
    tool="imex-log",
    title="log of nvidia-imex, or of its Kubernetes driver",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("nvidia-imex-log",),
)
