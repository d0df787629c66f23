"""What `rdma link` means."""

from __future__ import annotations

import re

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.port_judge import port_findings
from ndctl.parse.rdma_link import parse


def looks_like(text: str) -> float:
    """`link DEVICE/PORT … state … physical_state …`."""
    if re.search(r"\S+/\d+:? .*\bstate [A-Z]+ physical_state [A-Z_]+", text):
        return 0.95
    return 0.9 if '"physical_state"' in text and '"ifname"' in text else 0.0


JUDGE = TextJudge(
    tool="rdma-link",
    title="rdma link: RDMA ports and their interfaces",
    parse=parse,
    judge=port_findings,
    looks_like=looks_like,
    aliases=("rdma",),
)
