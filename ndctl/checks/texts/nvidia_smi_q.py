"""What `nvidia-smi -q` means."""

from __future__ import annotations

import re

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.gpu_judge import gpu_findings
from ndctl.parse.nvidia_smi_q import parse

_LABELS = re.compile(
    r"^\s*(?:Product Name|Persistence Mode|Minor Number|ClusterUUID|CliqueId|Remapping Failure Occurred|GPU UUID"
    r"|Pending Page Blacklist|GPU Recovery Action|SRAM Uncorrectable|DRAM Uncorrectable|Attached GPUs|VBIOS Version"
    r"|Single Bit ECC|Volatile|Retired Pages|Remapped Rows)\s*(?::|$)",
    re.MULTILINE,
)


def looks_like(text: str) -> float:
    """Its headline, or several of its labels."""
    if "NVSMI LOG" in text and "<nvidia_smi_log" not in text:
        return 0.95
    return min(0.9, 0.35 * len({match[0].strip(" :\t") for match in _LABELS.finditer(text[:200_000])}))


JUDGE = TextJudge(
    tool="nvidia-smi-q",
    title="nvidia-smi -q, whole or a part of it: ECC, row remapping, fabric, recovery action, clocks",
    parse=parse,
    judge=gpu_findings,
    looks_like=looks_like,
    aliases=("smi-q", "nvidia-smi-query"),
)
