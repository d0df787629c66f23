"""Each GPU's own health as nvidia-smi tells it: ECC, row remapping, recovery action, InfoROM, persistence and more."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, node_judge, unusable
from ndctl.checks.gpus import gpus_of, named, subject
from ndctl.checks.texts.nvidia_smi_xml import JUDGE
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.gpu_facts import Gpu
from ndctl.profiles.schema import Profile

_ID = "gpu.health"
# What has a check of its own: counting, the fabric, the model, and how a GPU runs.
_ELSEWHERE = (
    "gpu.count",
    "fabric.",
    "gpu.model",
    "gpu.clocks-slowed",
    "gpu.temperature",
    "gpu.memory-temperature",
    "gpu.pcie-width",
    "gpu.power-limit",
)
_judge_text = node_judge(
    _ID, JUDGE, commands.NVIDIA_SMI_XML, keep=lambda finding: not finding.check.startswith(_ELSEWHERE)
)


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    if unusable(_ID, answer, commands.NVIDIA_SMI_XML):
        return _judge_text(answer, profile)
    findings = [named(finding, answer) for finding in _judge_text(answer, profile)]
    facts = gpus_of(answer)
    gpus = facts.gpus if facts is not None else ()
    if not any(finding.check.endswith(".not-observable") for finding in findings):
        blind = [gpu for gpu in gpus if _tells_nothing(gpu, profile)]
        findings = [f for f in findings if f.status is not Status.PASS] if blind else findings
        findings += [_unseen(gpu, answer) for gpu in blind]
    if not findings and gpus:
        findings.append(
            Finding(
                check=_ID,
                status=Status.PASS,
                subject=f"{len(gpus)} GPUs",
                node=answer.node.name,
                message=f"no fault in the memory or state of {len(gpus)} GPUs",
                evidence=evidence(answer, commands.NVIDIA_SMI_XML),
            )
        )
    return findings


def _tells_nothing(gpu: Gpu, profile: Profile) -> bool:
    """Of its memory, which is most of a GPU's health: a fabric that is fine says nothing of it."""
    return profile.gpu.ecc.value and gpu.ecc.volatile.uncorrectable is None and gpu.remapped_rows.failure is None


def _unseen(gpu: Gpu, answer: NodeAnswer) -> Finding:
    return Finding(
        check=f"{_ID}.not-observable",
        status=Status.UNKNOWN,
        subject=subject(gpu),
        node=answer.node.name,
        message="the driver tells neither ECC counts nor row remapping",
        cause="driver too old for this board, or the board does not answer",
        action=Action.INVESTIGATE,
        evidence=evidence(answer, commands.NVIDIA_SMI_XML),
    )


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="ECC, row remapping, recovery action, InfoROM and persistence of every GPU",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_node=_judge_node,
)
