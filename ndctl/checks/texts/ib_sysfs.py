"""What a `grep -H` listing of /sys/class/infiniband means."""

from __future__ import annotations

import re

from ndctl.checks.read_once import ports_of
from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.port_judge import port_findings


def looks_like(text: str) -> float:
    """Paths of port files with a value."""
    return 0.95 if re.search(r"/ports/\d+/[\w/-]+ ?: ?\S", text) else 0.0


JUDGE = TextJudge(
    tool="ib-sysfs",
    title="grep -H . /sys/class/infiniband/*/ports/*/…: InfiniBand ports, counters, partition keys",
    parse=ports_of,
    judge=port_findings,
    looks_like=looks_like,
    aliases=("sysfs", "infiniband-sysfs"),
)
