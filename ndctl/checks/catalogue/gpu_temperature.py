"""No GPU or its memory is at its limit, and none is far hotter than the rack's others that do as much."""

from __future__ import annotations

from statistics import median

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.gpus import gpus_of, gpus_of_rack, judged_gpus, not_listed, of_gpu, seen_well, subject
from ndctl.checks.outliers import outliers
from ndctl.checks.texts.gpu_running import temperature_findings
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.gpu_facts import Gpu
from ndctl.profiles.schema import Profile

_ID = "gpu.temperature"
HOTTER_C = 10.0  # and at least so much above the median, besides standing out
_HARDER = 1.15  # a GPU that draws this share of the median power is hot from its work
_SOURCE = "the rack's other GPUs"


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    findings = judged_gpus(_ID, answer, lambda gpu: temperature_findings(gpu, profile))
    blind = not_listed(_ID, answer, "the temperature", lambda gpu: gpu.temperature.gpu is not None)
    facts = gpus_of(answer)
    gpus = facts.gpus if facts else ()
    if findings or blind:
        return [*findings, *([blind] if blind else [])]
    hottest = max(gpu.temperature.gpu or 0.0 for gpu in gpus)
    memory = [gpu.temperature.memory for gpu in gpus if gpu.temperature.memory is not None]
    told = f", memory at most {max(memory):g} °C" if memory else ", memory not told"
    return [seen_well(_ID, answer, gpus, f"at most {hottest:g} °C{told}")]


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    """Idle GPUs against idle ones, busy against busy: a load makes its own heat."""
    findings: list[Finding] = []
    everyone = gpus_of_rack(view)
    for busy in (False, True):
        alike = [(answer, gpu) for answer, gpu in everyone if is_busy(gpu) is busy]
        powers = [gpu.power.draw for _, gpu in alike if gpu.power.draw is not None]
        usual_power = median(powers) if powers else None
        for part in ("GPU", "memory"):
            values = {
                number: value
                for number, (_, gpu) in enumerate(alike)
                if (value := gpu.temperature.gpu if part == "GPU" else gpu.temperature.memory) is not None
            }
            for one in outliers(values, "high", absolute=HOTTER_C):
                answer, gpu = alike[one.key]
                if usual_power and gpu.power.draw is not None and gpu.power.draw > _HARDER * usual_power:
                    continue
                if any(f.subject == subject(gpu) and f.node == answer.node.name for f in findings):
                    continue  # the chip and its memory are cooled by one plate
                findings.append(
                    of_gpu(
                        f"{_ID}.hotter",
                        Status.WARN,
                        answer,
                        gpu,
                        f"{part} at {one.value:g} °C beside the rack's {one.median:g} °C, "
                        f"{'busy like' if busy else 'idle like'} the {len(values) - 1} it is compared with",
                        value=one.value,
                        unit="°C",
                        expected=f"about {one.median:g} °C, less than {HOTTER_C:g} °C above it",
                        source=_SOURCE,
                        cause="cooling of this GPU: flow, cold plate or its paste",
                        action=Action.INVESTIGATE,
                    )
                )
    return findings


def is_busy(gpu: Gpu) -> bool:
    """Whether it does anything, as far as the listing tells."""
    working = (gpu.utilization_percent or 0.0) > 0 or any(one.kind.upper() != "G" for one in gpu.processes)
    return working and not gpu.event_reasons.get("idle", False)


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="GPU and HBM temperatures below their limits, and none far above the rack's median",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_node=_judge_node,
    judge_rack=_judge_rack,
    required=False,
)
