"""What the plain table of `nvidia-smi` means: little about health, but enough to see a lost GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.gpu_judge import gpu_findings
from ndctl.model.findings import Finding
from ndctl.parse.gpu_facts import Gpus
from ndctl.parse.nvidia_smi_table import parse
from ndctl.profiles.schema import Profile


def judge(facts: Gpus, profile: Profile | None) -> Sequence[Finding]:
    readable = facts.gpus and all(g.memory_total_mib is not None for g in facts.gpus)
    return gpu_findings(facts, profile, ["readings"] if readable else [])


def looks_like(text: str) -> float:
    """The table's head or rows, or one of the sentences nvidia-smi fails with."""
    if re.search(r"NVIDIA-SMI +\d+\.\d+.*Driver Version", text):
        return 0.95
    if re.search(r"\d+MiB */ *\d+MiB", text) and re.search(r"\d{1,3}C +P\d|ERR!", text):
        return 0.8
    said = (
        r"NVIDIA-SMI has failed|Unable to determine the device handle|Failed to initialize NVML|No devices were found"
    )
    return 0.85 if re.search(said, text) else 0.0


JUDGE = TextJudge(
    tool="nvidia-smi",
    title="nvidia-smi: the plain table",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("smi", "nvidia-smi-table"),
)
