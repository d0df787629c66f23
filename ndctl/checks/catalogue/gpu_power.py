"""The enforced power limit is what the board should have, and the same on all GPUs of the rack.

What a GPU draws is no fault: a GB300 is made for 1,400 W.
"""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.gpus import gpus_of, gpus_of_rack, judged_gpus, not_listed, of_gpu, seen_well
from ndctl.checks.majority import camps, majority
from ndctl.checks.texts.gpu_running import power_findings
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.gpu_facts import Gpu
from ndctl.profiles.schema import Profile

_ID = "gpu.power"
_CAUSE = "limit set by someone (nvidia-smi -pl), or a board of another variant"


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    findings = judged_gpus(_ID, answer, lambda gpu: power_findings(gpu, profile))
    blind = not_listed(_ID, answer, "the power limit", lambda gpu: gpu.power.limit is not None)
    if findings or blind:
        return [*findings, *([blind] if blind else [])]
    facts = gpus_of(answer)
    gpus = facts.gpus if facts else ()
    limits = sorted({gpu.power.limit for gpu in gpus if gpu.power.limit is not None})
    return [seen_well(_ID, answer, gpus, f"power limit {', '.join(f'{limit:g}' for limit in limits)} W")]


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    def outside(gpu: Gpu) -> bool:
        return bool(power_findings(gpu, profile))  # told of by its node already

    limits = [
        (answer, gpu, f"{gpu.power.limit:g}") for answer, gpu in gpus_of_rack(view) if gpu.power.limit is not None
    ]
    usual = majority(limit for _, _, limit in limits)
    if usual is None and limits:
        return [
            Finding(
                check=f"{_ID}.split",
                status=Status.WARN,
                subject=f"{view.name} power limits",
                value=len({limit for _, _, limit in limits}),
                unit="limits",
                expected="one",
                message="no power limit has the majority, in W: "
                + camps({f"{answer.node.name} GPU {gpu.index}": limit for answer, gpu, limit in limits}),
                cause="limits set on a part of the rack, or boards of two variants",
                action=Action.INVESTIGATE,
            )
        ]
    return [
        of_gpu(
            f"{_ID}.differs",
            Status.WARN,
            answer,
            gpu,
            f"power limit {limit} W beside the rack's {usual} W: it will be {_slower(limit, usual)} than the others",
            value=gpu.power.limit,
            unit="W",
            expected=f"{usual} W",
            source="the rack's other GPUs",
            cause=_CAUSE,
            action=Action.INVESTIGATE,
        )
        for answer, gpu, limit in limits
        if usual is not None and limit != usual and not outside(gpu)
    ]


def _slower(limit: str, usual: str) -> str:
    return "slower under load" if float(limit) < float(usual) else "hotter under load"


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="the enforced power limit is right, and equal across the rack",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_node=_judge_node,
    judge_rack=_judge_rack,
    required=False,
)
