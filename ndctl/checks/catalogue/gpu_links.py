"""The way from each GPU to its CPU: chip-to-chip links where the board has them, and PCIe.

A Grace board's GPUs reach their CPU over C2C, so their PCIe lanes are compared with the rack's and not with the slot.
Links rest at a lower generation, so a generation counts only where the GPU runs at full clocks (P0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.gpus import gpus_of, gpus_of_rack, judged_gpus, not_listed, of_gpu, seen_well
from ndctl.checks.majority import majority
from ndctl.checks.texts.gpu_running import pcie_findings
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.gpu_facts import Gpu
from ndctl.profiles.schema import Profile

_ID = "gpu.links"
_RACK = "the rack's other GPUs"
_CAUSE = "slot, riser or lane fault; a link that did not train well"


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    findings = judged_gpus(_ID, answer, pcie_findings)
    facts = gpus_of(answer)
    gpus = facts.gpus if facts else ()
    told = {f.subject for f in findings}
    findings += [f for gpu in gpus for f in _lanes(answer, gpu, profile) if f.subject not in told]
    blind = not_listed(_ID, answer, "the PCIe link", lambda gpu: gpu.pcie.width_current is not None)
    if findings or blind:
        return [*findings, *([blind] if blind else [])]
    return [seen_well(_ID, answer, gpus, f"PCIe {_shown(gpus)}")]


def _lanes(answer: NodeAnswer, gpu: Gpu, profile: Profile) -> list[Finding]:
    least, now = profile.gpu.pcie_lanes, gpu.pcie.width_current
    if least is None or now is None or now >= least.value:
        return []
    return [
        of_gpu(
            f"{_ID}.pcie-width",
            Status.WARN,
            answer,
            gpu,
            f"PCIe runs on {now} lanes",
            value=now,
            unit="lanes",
            expected=f"at least {least.value}",
            source=least.origin,
            cause=_CAUSE,
            action=Action.INVESTIGATE,
        )
    ]


def _shown(gpus: Sequence[Gpu]) -> str:
    kinds = Counter(f"{gpu.pcie.width_current} lanes of generation {gpu.pcie.gen_current or '?'}" for gpu in gpus)
    return ", ".join(f"{kind} ×{number}" for kind, number in kinds.items())


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    everyone = gpus_of_rack(view)
    findings: list[Finding] = []
    for what, unit, value_of in (("width", "lanes", _width), ("generation", "generation", _generation)):
        values = [(answer, gpu, value) for answer, gpu in everyone if (value := value_of(gpu)) is not None]
        usual = majority([value for _, _, value in values])
        for answer, gpu, value in values:
            if usual is None or value >= usual or pcie_findings(gpu) or _lanes(answer, gpu, profile):
                continue
            findings.append(
                of_gpu(
                    f"{_ID}.pcie-{what}",
                    Status.WARN,
                    answer,
                    gpu,
                    f"PCIe {what} {value} beside the rack's {usual}",
                    value=value,
                    unit=unit,
                    expected=str(usual),
                    source=_RACK,
                    cause=_CAUSE,
                    action=Action.INVESTIGATE,
                )
            )
    return findings


def _width(gpu: Gpu) -> int | None:
    return gpu.pcie.width_current


def _generation(gpu: Gpu) -> int | None:
    return gpu.pcie.gen_current if gpu.performance_state == "P0" else None


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="PCIe lanes and generation of every GPU, against the profile and the rack",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_node=_judge_node,
    judge_rack=_judge_rack,
    required=False,
)
