"""What a `dcgmi health` answer means."""

from __future__ import annotations

from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.dcgmi_health import DcgmiHealth, Incident, parse
from ndctl.profiles.schema import Profile

_STATUS = {"failure": Status.FAIL, "warning": Status.WARN}


def judge(facts: DcgmiHealth, profile: Profile | None = None) -> list[Finding]:
    """Findings about one answer. A profile adds nothing: DCGM holds its own limits."""
    findings = [_of(incident, facts.overall) for incident in facts.incidents]
    for error in facts.errors:
        findings.append(
            Finding(
                check="dcgm.health", status=Status.UNKNOWN, subject="nv-hostengine",
                message=f"DCGM was not asked or does not watch: {error}",
                cause="nv-hostengine not running, or health watches not set (dcgmi health -s a)",
            )
        )  # fmt: skip
    worst = _STATUS.get(facts.overall or "")
    if worst and not any(finding.status is worst for finding in findings):
        findings.append(_say(worst, f"overall health: {facts.overall}", Action.INVESTIGATE))
    if facts.overall == "healthy" and not findings:
        if facts.complete:
            findings.append(_say(Status.PASS, "overall health: healthy"))
        else:
            findings.append(_say(Status.UNKNOWN, "says healthy, but the output is cut off"))
    if not findings:
        findings.append(_say(Status.UNKNOWN, "no health result in this text"))
    return findings


def _of(incident: Incident, overall: str | None) -> Finding:
    subject = " ".join(part for part in (incident.entity, incident.system) if part) or "health"
    if incident.code == "DCGM_FR_IMEX_UNHEALTHY" or "imex" in incident.text.lower():
        return Finding(
            check="dcgm.imex",
            status=Status.WARN,
            subject=subject,
            message=f"DCGM says IMEX is not ready: {incident.text[:300]}",
            cause="no IMEX domain is active on an idle node (normal where jobs bring their own), or the daemon is "
            "down; no hardware fault by itself",
            action=Action.WATCH,
        )
    status = _STATUS.get(incident.state, _STATUS.get(overall or "", Status.WARN))
    return Finding(
        check="dcgm.health",
        status=status,
        subject=subject,
        message=f"{incident.state or 'incident'}: {incident.text[:300] or incident.system}",
        action=Action.INVESTIGATE,
    )


def looks_like(text: str) -> float:
    if "Health Monitor Report" in text:
        return 0.97
    return 0.9 if "Overall Health" in text or "DCGM_FR_" in text or "Health watches not enabled" in text else 0.0


def _say(status: Status, message: str, action: Action = Action.NONE) -> Finding:
    return Finding(check="dcgm.health", status=status, subject="health", message=message, action=action)


JUDGE = TextJudge(
    tool="dcgmi-health",
    title="dcgmi health -c, and incidents quoted from it",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("dcgm-health",),
)
