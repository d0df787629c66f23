"""What `nvidia-smi --query-… --format=csv` means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.gpu_judge import gpu_findings
from ndctl.model.findings import Finding
from ndctl.model.status import Status
from ndctl.parse.gpu_facts import Gpus
from ndctl.parse.nvidia_smi_csv import parse
from ndctl.profiles.schema import Profile


def judge(facts: Gpus, profile: Profile | None) -> Sequence[Finding]:
    if not facts.gpus and not facts.troubles:
        said = f": {facts.problems[0]}" if facts.problems else "; without it the columns have no meaning"
        message = f"no head of --query-gpu column names and rows below it{said}"
        return [Finding(check="gpu.none", status=Status.UNKNOWN, subject="text", message=message)]
    return gpu_findings(facts, profile)


def looks_like(text: str) -> float:
    """A head of query names."""
    head = re.search(
        r"^[^\n]*\b(?:gpu_bus_id|pci\.bus_id|uuid|remapped_rows\.\w+|ecc\.\w[\w.]+|index|name)\b *,[^\n]*$",
        text,
        re.MULTILINE,
    )
    if not head:
        return 0.0
    known = re.findall(
        r"\b(?:pci\.bus_id|gpu_bus_id|remapped_rows\.|ecc\.|temperature\.|power\.|memory\.|utilization\.|fabric\.|clocks)",
        head[0],
    )
    return 0.9 if known else 0.4


JUDGE = TextJudge(
    tool="nvidia-smi-csv",
    title="nvidia-smi --query-gpu=… --format=csv, with its head",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("smi-csv", "query-gpu", "nvidia-smi-query-gpu"),
)
