"""Every GPU is registered with the NVLink fabric: state Completed, status Success, nothing wrong in its health."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, node_judge, unusable
from ndctl.checks.gpus import gpus_of, named, subject
from ndctl.checks.texts.gpu_fabric import registered
from ndctl.checks.texts.nvidia_smi_xml import JUDGE
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "nvlink.fabric"
_judge_text = node_judge(_ID, JUDGE, commands.NVIDIA_SMI_XML, keep=lambda finding: finding.check.startswith("fabric."))


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    if unusable(_ID, answer, commands.NVIDIA_SMI_XML):
        return _judge_text(answer, profile)
    facts = gpus_of(answer)
    gpus = facts.gpus if facts else ()
    settling = [g for g in gpus if g.fabric and (g.fabric.state or "").lower() in ("in progress", "not started")]
    findings = [named(finding, answer) for finding in _judge_text(answer, profile)]
    if settling:
        # What the others say stands; a GPU that still registers is judged by that alone.
        names = {subject(gpu) for gpu in settling}
        others = [finding for finding in findings if finding.subject not in names]
        return [_settling(answer, len(settling), len(gpus)), *others]
    if findings:
        return findings
    well = sum(1 for gpu in gpus if registered(gpu))
    complete = bool(gpus) and well == len(gpus)
    return [
        Finding(
            check=_ID,
            status=Status.PASS if complete else Status.UNKNOWN,
            subject=f"{len(gpus)} GPUs",
            node=answer.node.name,
            value=well,
            unit="GPUs registered",
            expected="Completed, Success on every GPU",
            source="nvidia-smi fabric block",
            message=f"{well} of {len(gpus)} GPUs say that they are registered with the fabric",
            evidence=evidence(answer, commands.NVIDIA_SMI_XML),
        )
    ]


def _settling(answer: NodeAnswer, number: int, of: int) -> Finding:
    """Waited for by the caller; what still settles after that is no pass, and not yet a fault."""
    return Finding(
        check=f"{_ID}.settling",
        status=Status.UNKNOWN,
        subject=f"{number} GPUs",
        node=answer.node.name,
        value=of - number,
        unit="GPUs registered",
        expected="Completed, Success on every GPU",
        source="nvidia-smi fabric block",
        message=f"the fabric registration of {number} of {of} GPUs is still in progress",
        cause="normal for minutes after a boot; when it stays, the fabric manager or the switch trays are not ready",
        action=Action.INVESTIGATE,
        evidence=evidence(answer, commands.NVIDIA_SMI_XML),
    )


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="every GPU is registered with the NVLink fabric and its fabric health is good",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_node=_judge_node,
    applies=lambda profile: profile.nvlink.domain.value == "rack",
)
