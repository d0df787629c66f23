"""Each GPU's own health as nvidia-smi tells it: ECC, row remapping, recovery action, InfoROM, persistence and more."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, node_judge, unusable
from ndctl.checks.gpus import gpus_of, named
from ndctl.checks.texts.nvidia_smi_xml import JUDGE
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "gpu.health"
# Counting GPUs and the fabric have checks of their own.
_ELSEWHERE = ("gpu.count", "fabric.")
_judge_text = node_judge(
    _ID, JUDGE, commands.NVIDIA_SMI_XML, keep=lambda finding: not finding.check.startswith(_ELSEWHERE)
)


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    if unusable(_ID, answer, commands.NVIDIA_SMI_XML):
        return _judge_text(answer, profile)
    findings = [named(finding, answer) for finding in _judge_text(answer, profile)]
    facts = gpus_of(answer)
    if not findings and facts is not None and facts.gpus:
        findings.append(
            Finding(
                check=_ID,
                status=Status.PASS,
                subject=f"{len(facts.gpus)} GPUs",
                node=answer.node.name,
                message=f"no fault in the memory or state of {len(facts.gpus)} GPUs",
                evidence=evidence(answer, commands.NVIDIA_SMI_XML),
            )
        )
    return findings


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="ECC, row remapping, recovery action, InfoROM and persistence of every GPU",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_node=_judge_node,
)
