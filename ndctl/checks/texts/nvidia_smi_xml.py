"""What `nvidia-smi -q -x` means."""

from __future__ import annotations

from ndctl.checks.read_once import once
from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.gpu_judge import gpu_findings
from ndctl.parse.nvidia_smi_xml import parse

# Several checks read a node's one listing, and some racks are judged more than once: nothing of a run reads as long.
read = once(parse)


def looks_like(text: str) -> float:
    """Its root element, or elements only it has."""
    if "nvidia_smi_log" in text:
        return 0.97
    return 0.8 if '<gpu id="' in text or "<gpu_recovery_action>" in text or "<ecc_errors>" in text else 0.0


JUDGE = TextJudge(
    tool="nvidia-smi-xml",
    title="nvidia-smi -q -x, whole or a part of it",
    parse=read,
    judge=gpu_findings,
    looks_like=looks_like,
    aliases=("smi-xml", "nvidia-smi-qx", "nvidia-smi-q-x"),
)
