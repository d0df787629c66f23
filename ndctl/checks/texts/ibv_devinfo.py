"""What `ibv_devinfo` means."""

from __future__ import annotations

import re

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.port_judge import port_findings
from ndctl.parse.ibv_devinfo import parse


def looks_like(text: str) -> float:
    """Its headline or its way to write states."""
    if "hca_id:" in text:
        return 0.95
    return 0.8 if re.search(r"state:\s+PORT_(?:ACTIVE|DOWN|INIT|ARMED)", text) else 0.0


JUDGE = TextJudge(
    tool="ibv-devinfo",
    title="ibv_devinfo: RDMA devices and ports",
    parse=parse,
    judge=port_findings,
    looks_like=looks_like,
)
