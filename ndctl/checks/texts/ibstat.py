"""What `ibstat` means."""

from __future__ import annotations

import re

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.port_judge import port_findings
from ndctl.parse.ibstat import parse


def looks_like(text: str) -> float:
    """A `CA 'name'` headline with ibstat's labels."""
    labels = sum(1 for label in ("Physical state:", "Base lid:", "SM lid:", "Port GUID:", "CA type:") if label in text)
    if re.search(r"^\W*CA:? ?['‘’]", text, re.MULTILINE) and labels:
        return 0.95
    return 0.7 if labels >= 3 else 0.0


JUDGE = TextJudge(
    tool="ibstat",
    title="ibstat: InfiniBand ports",
    parse=parse,
    judge=port_findings,
    looks_like=looks_like,
)
