"""The few words and styles that a run's and a text's answer share."""

from __future__ import annotations

from ndctl.model.findings import Finding, Value
from ndctl.model.status import Status

BAD = (Status.FAIL, Status.UNKNOWN, Status.WARN)  # worst first
STATUS_STYLE = {
    Status.PASS: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.UNKNOWN: "magenta",
    Status.SKIP: "dim",
}


def rank(status: Status) -> int:
    """0 is what a person must see first."""
    return (*BAD, Status.SKIP, Status.PASS).index(status)


def measured(finding: Finding) -> str:
    """ "17 links active, expected 18 links (Azure docs, 2026-04)"; "" when there is neither.

    A bare number, with no unit and nothing to hold it against, is left to the message.
    """
    parts = []
    if finding.value is not None and finding.value != "" and (finding.unit or finding.expected):
        parts.append(f"{number(finding.value)} {finding.unit}".strip())
    if finding.expected:
        parts.append(f"expected {finding.expected}" + (f" ({finding.source})" if finding.source else ""))
    return ", ".join(parts)


def number(value: Value) -> str:
    """At most six digits of a fraction, integers whole: a counter's last digit can be the news."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.6g}"
    if isinstance(value, float) and abs(value) >= 1e15:
        return f"{value:g}"
    return f"{value:,.0f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """4m41s, 45s"""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
