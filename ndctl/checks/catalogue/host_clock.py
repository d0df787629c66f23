"""The node's clock is kept, and near the right time: logs of a rack are compared to the millisecond, and credentials
of a clock that is far off are refused."""

from __future__ import annotations

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, unusable
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import clock
from ndctl.parse.clock import ClockFacts
from ndctl.profiles.schema import Profile

_ID = "host.clock"


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    result = answer.results.get(asked.HOST_CLOCK.id)
    if result is not None and result.missing_tool:
        return [_said(answer, Status.SKIP, _ID, "neither chronyc nor timedatectl is installed")]
    missing = unusable(_ID, answer, asked.HOST_CLOCK)
    if missing or result is None:
        return [missing] if missing else []
    facts = clock.parse(result.stdout, result.stderr)
    if facts.tool == "":
        said = next(iter(facts.problems), "") or next(iter(facts.unknown_fields), "") or "no answer"
        return [_said(answer, Status.SKIP, _ID, f"nobody here can tell how the clock is kept: {said}")]
    return _judged(answer, facts, profile)


def _judged(answer: NodeAnswer, facts: ClockFacts, profile: Profile) -> list[Finding]:
    host = profile.host
    offset = abs(facts.offset_s) if facts.offset_s is not None else None
    warn, fail = host.clock_offset_s, host.clock_offset_fail_s
    if offset is not None and warn is not None and offset > warn.value:
        bad = fail is not None and offset >= fail.value
        limit = fail if bad and fail is not None else warn
        return [
            Finding(
                check=f"{_ID}.offset",
                status=Status.FAIL if bad else Status.WARN,
                subject="clock",
                node=answer.node.name,
                value=facts.offset_s,
                unit="s",
                expected=f"within {limit.value:g} s of NTP time",
                source=limit.origin,
                message=f"the clock is {offset:.3f} s {'fast' if (facts.offset_s or 0) > 0 else 'slow'}",
                cause="it was set by hand, or its source is gone; chrony closes the gap slowly unless told to step",
                action=Action.INVESTIGATE,
                evidence=evidence(answer, asked.HOST_CLOCK),
            )
        ]
    if facts.synced is False:
        nobody = facts.service is False
        cause = "no service keeps the clock" if nobody else "no time source was reached, or not yet since the boot"
        return [
            _said(
                answer,
                Status.WARN,
                f"{_ID}.not-synchronised",
                f"{facts.tool} says that the clock is not synchronised",
                cause=cause,
                action=Action.FIX_IMAGE if nobody else Action.INVESTIGATE,
            )
        ]
    if facts.synced is None:
        return [_said(answer, Status.UNKNOWN, _ID, f"{facts.tool} does not say whether the clock is synchronised")]
    if facts.tool == "chrony" and offset is None:
        return [_said(answer, Status.UNKNOWN, _ID, "chrony does not say how far off the clock is")]
    by = f"from {facts.reference}" if facts.reference else f"says {facts.tool}"
    how_far = f", {1e6 * offset:.0f} µs off" if offset is not None else ""
    finding = _said(answer, Status.PASS, _ID, f"the clock is synchronised {by}{how_far}")
    return [finding]


def _said(
    answer: NodeAnswer, status: Status, check: str, message: str, cause: str = "", action: Action = Action.NONE
) -> Finding:
    return Finding(
        check=check,
        status=status,
        subject="clock",
        node=answer.node.name,
        expected="synchronised" if status is Status.WARN else "",
        source="chronyc tracking or timedatectl" if status is Status.WARN else "",
        message=message,
        cause=cause,
        action=action,
        evidence=evidence(answer, asked.HOST_CLOCK),
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="the clock is synchronised and near the right time",
    commands=(asked.HOST_CLOCK,),
    judge_node=_judge_node,
    required=False,
)
