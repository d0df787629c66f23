"""What `ibqueryerrors` means."""

from __future__ import annotations

import re

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.ib_counters_judge import counters_findings
from ndctl.parse.ib_counters import parse


def looks_like(text: str) -> float:
    """`Errors for …`, its items or its summary."""
    found = re.search(r"GUID 0x\w+ port \w+: \[|ports have errors beyond threshold|\d+ nodes checked", text)
    return 0.95 if found else 0.6 if "query failed on" in text else 0.0


JUDGE = TextJudge(
    tool="ibqueryerrors",
    title="ibqueryerrors: ports of the subnet with errors",
    parse=parse,
    judge=counters_findings,
    looks_like=looks_like,
)
