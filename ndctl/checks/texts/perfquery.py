"""What `perfquery` means."""

from __future__ import annotations

import re

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.ib_counters_judge import counters_findings
from ndctl.parse.ib_counters import parse


def looks_like(text: str) -> float:
    """Counter names with leaders of dots."""
    return 0.95 if re.search(r"^\s*(?:Port|Symbol|Link|Rcv|Xmt)\w+:\.{3,}\s*\d", text, re.MULTILINE) else 0.0


JUDGE = TextJudge(
    tool="perfquery", title="perfquery: counters of a port", parse=parse, judge=counters_findings, looks_like=looks_like
)
