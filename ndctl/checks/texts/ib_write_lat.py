"""What a perftest latency output means. No platform promises a latency, so a profile adds nothing."""

from __future__ import annotations

import re

from ndctl.checks.perftest_complaints import complaint_findings
from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Status
from ndctl.parse.ib_lat import PerftestLatency, parse
from ndctl.profiles.schema import Profile


def judge(facts: PerftestLatency, profile: Profile | None = None) -> list[Finding]:
    """Findings about one output."""
    rows = [row for row in facts.rows if row.t_avg is not None]
    findings = complaint_findings(facts.errors, bool(rows))
    if not rows:
        if not findings:
            why = "it ends before the results" if facts.test or facts.device else "no result table"
            findings.append(_say("infiniband.no-result", Status.UNKNOWN, f"no measured row in this text: {why}"))
        return findings
    first = rows[0]
    where = f"{facts.test or 'latency test'} on {facts.device or 'a device not shown'}"
    tail = f", 99 % below {first.p99:g}" if first.p99 is not None else ""
    findings.insert(
        0,
        _say("infiniband.measured", Status.PASS, f"{where}: average {first.t_avg:g} us at {first.bytes} B{tail}"),
    )
    if not facts.complete or facts.torn_rows:
        findings.append(_say("infiniband.cut", Status.WARN, "the closing line is missing: rows may have followed"))
    if facts.frequency_warnings:
        findings.append(
            _say(
                "infiniband.cpu-frequency",
                Status.WARN,
                "the CPU's frequency changed or is not at its maximum: latencies are computed from it and may be off",
            )
        )
    return findings


def looks_like(text: str) -> float:
    if re.search(r"t_avg\s?\[|\bt_avg\b|t_typical", text):
        return 0.97
    return 0.9 if re.search(r"\w Latency Test|_Latency_Test", text) else 0.0


def _say(check: str, status: Status, message: str) -> Finding:
    return Finding(check=check, status=status, subject="port", message=message)


JUDGE = TextJudge(
    tool="ib-write-lat",
    title="perftest latency: ib_write_lat, ib_read_lat, ib_send_lat, text or --out_json",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("ib-read-lat", "ib-send-lat"),
)
