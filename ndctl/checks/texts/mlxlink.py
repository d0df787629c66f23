"""What `mlxlink` means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.mlxlink import MlxLink, parse
from ndctl.profiles.schema import Profile

_RAW_BER_LIMIT = 1e-7
_RAW_BER_SOURCE = "OCI active health check, 2026-12-02"


# The words after which a port is certainly not up; any other is cut short or not known.
_DOWN = ("polling", "disable", "down", "init", "armed", "close", "sleep", "port plr", "rx disable", "phy")


def judge(facts: MlxLink, profile: Profile | None) -> Sequence[Finding]:
    state = facts.state.lower()
    if not (facts.speed or facts.width) or (state != "active" and not state.startswith(_DOWN)):
        said = f": “{facts.errors[0]}”" if facts.errors else ""
        message = f"the port's state is not in this text{said}"
        return [Finding(check="mlxlink.none", status=Status.UNKNOWN, subject="text", message=message)]
    findings = []
    if facts.state.lower() != "active":
        findings.append(
            Finding(
                check="mlxlink.state",
                status=Status.FAIL,
                subject="port",
                value=facts.state,
                expected="Active",
                message=f"{facts.state}, physically {facts.phys_state or 'not shown'}",
                cause=facts.recommendation,
                action=Action.INVESTIGATE,
            )
        )
    elif facts.recommendation and "no issue" not in facts.recommendation.lower() and facts.recommendation != "N/A":
        findings.append(
            Finding(
                check="mlxlink.recommendation",
                status=Status.WARN,
                subject="port",
                message=f"the adapter says: {facts.recommendation}",
                action=Action.INVESTIGATE,
            )
        )
    if facts.raw_ber is not None and facts.raw_ber > _RAW_BER_LIMIT:
        findings.append(
            Finding(
                check="mlxlink.bit-error-rate",
                status=Status.WARN,
                subject="port",
                value=facts.raw_ber,
                expected=f"at most {_RAW_BER_LIMIT:g}",
                source=_RAW_BER_SOURCE,
                message=f"raw bit error rate {facts.raw_ber:g}",
                cause="cable or transceiver",
                action=Action.WATCH,
            )
        )
    if profile and facts.rate_gbps is not None and facts.rate_gbps < profile.infiniband.rate_gbps.value * 0.99:
        findings.append(
            Finding(
                check="mlxlink.rate",
                status=Status.FAIL,
                subject="port",
                value=facts.rate_gbps,
                unit="Gb/s",
                expected=f"{profile.infiniband.rate_gbps.value:g} Gb/s",
                source=profile.infiniband.rate_gbps.origin,
                message=f"{facts.speed} {facts.width}: {facts.rate_gbps:g} Gb/s",
                action=Action.INVESTIGATE,
            )
        )
    if profile and facts.rate_gbps is None and not findings:
        message = "the port's speed is not in this text"
        findings.append(Finding(check="mlxlink.rate", status=Status.UNKNOWN, subject="port", message=message))
    if not findings:
        message = f"Active, {facts.phys_state or 'physical state not shown'}, {facts.speed} {facts.width}".rstrip(", ")
        findings.append(
            Finding(check="mlxlink.port", status=Status.PASS, subject="port", value=facts.state, message=message)
        )
    return findings


def looks_like(text: str) -> float:
    """Its sections."""
    if re.search(r"^\W*Operational Info", text, re.MULTILINE) or '"Operational Info"' in text:
        return 0.95
    return 0.7 if re.search(r"^(?:Troubleshooting Info|Physical Counters and BER Info)", text, re.MULTILINE) else 0.0


JUDGE = TextJudge(
    tool="mlxlink", title="mlxlink, text or JSON: one port in depth", parse=parse, judge=judge, looks_like=looks_like
)
