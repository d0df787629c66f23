"""What `ibstatus` means."""

from __future__ import annotations

import re

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.port_judge import port_findings
from ndctl.parse.ibstatus import parse


def looks_like(text: str) -> float:
    """Its headline."""
    return 0.95 if re.search(r"Infiniband device .{1,66} port \d+ status", text) else 0.0


JUDGE = TextJudge(
    tool="ibstatus", title="ibstatus: InfiniBand ports", parse=parse, judge=port_findings, looks_like=looks_like
)
