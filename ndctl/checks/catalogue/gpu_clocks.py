"""Nothing holds a GPU's clocks down for heat or power, now or at any moment of this run.

What is active at one moment misses a slowdown that comes and goes, so the driver's counters of microseconds are read
twice: in `nvidia-smi -q -x` and at the end. Totals say nothing, they hold the whole life of the driver.
"""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import unusable
from ndctl.checks.gpus import gpus_of, judged_gpus, not_listed, of_gpu, seen_well, short_pci
from ndctl.checks.read_once import table_of
from ndctl.checks.texts.gpu_running import clock_findings
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.gpu_facts import Gpu, Gpus
from ndctl.profiles.schema import Profile

_ID = "gpu.clocks"
_SOURCE = "NVIDIA NVML clocks event reasons, 2026-12-02"
# Our name of a reason -> what it is, and what lies behind it. The power cap is how a GPU works under load.
_BAD = {
    "hw_thermal_slowdown": ("hardware thermal slowdown", "cooling"),
    "hw_power_brake": ("hardware power brake", "power supply or board"),
    "sw_thermal_slowdown": ("software thermal slowdown", "cooling"),
}


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    facts = gpus_of(answer)
    gpus = facts.gpus if facts else ()
    findings = judged_gpus(_ID, answer, clock_findings)
    blind = not_listed(_ID, answer, "what holds the clocks down", lambda gpu: bool(gpu.event_reasons))
    later, unread = _later(answer)
    slowed = {finding.subject for finding in findings}
    compared = 0
    for gpu in gpus:
        after = _same(gpu, later)
        if after is None:
            continue
        compared += any(name in gpu.event_counters and name in after.event_counters for name in _BAD)
        counted = [_counted(answer, gpu, after, reason) for reason in _grown(gpu, after)]
        findings += [finding for finding in counted if finding.subject not in slowed]
    if findings or blind:
        return [*findings, *([blind] if blind else [])]
    told = (
        f"no slowdown counter of {compared} GPUs grew"
        if compared
        else f"slowdown counters not observable: {unread or 'this driver has none'}"
    )
    return [seen_well(_ID, answer, gpus, f"nothing holds the clocks down for heat or power; {told}")]


def _later(answer: NodeAnswer) -> tuple[Gpus | None, str]:
    """The second reading, or why there is none: a driver that does not know the fields refuses the whole query."""
    missing = unusable(_ID, answer, commands.GPU_SLOWDOWNS_AFTER)
    if missing is not None:
        return None, missing.message
    result = answer.results[commands.GPU_SLOWDOWNS_AFTER.id]
    facts = table_of(result.stdout, result.stderr)
    why = facts.problems[0] if facts.problems else "" if facts.gpus else "the second reading shows no GPU"
    return facts, why


def _same(gpu: Gpu, later: Gpus | None) -> Gpu | None:
    """By address: places in two listings need not agree where a GPU drops out between them."""
    address = short_pci(gpu.pci)
    return next((one for one in (later.gpus if later else ()) if address and short_pci(one.pci) == address), None)


def growth(before: Gpu, after: Gpu, reason: str) -> int:
    """Microseconds between the readings; 0 where one is missing or the counter went down (driver loaded anew)."""
    first, second = before.event_counters.get(reason), after.event_counters.get(reason)
    return max(0, second - first) if first is not None and second is not None else 0


def _grown(before: Gpu, after: Gpu) -> list[str]:
    """The bad reasons that grew. Drivers count time under the power cap as software thermal slowdown as well (equal
    figures on real boards), so that one counts only where it grew by more than the cap's."""
    return [
        reason
        for reason in _BAD
        if (grown := growth(before, after, reason))
        and (reason != "sw_thermal_slowdown" or grown > growth(before, after, "sw_power_cap"))
    ]


def _counted(answer: NodeAnswer, before: Gpu, after: Gpu, reason: str) -> Finding:
    words, cause = _BAD[reason]
    grown = growth(before, after, reason) / 1000
    return of_gpu(
        f"{_ID}.slowed-for-a-while",
        Status.WARN,
        answer,
        before,
        f"{words} for {grown:g} ms during this run",
        value=grown,
        unit="ms",
        expected="0 ms",
        source=_SOURCE,
        cause=cause,
        action=Action.INVESTIGATE,
        command=commands.GPU_SLOWDOWNS_AFTER,
    )


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="nothing holds clocks down for heat or power, and no slowdown counter grows",
    commands=(commands.NVIDIA_SMI_XML, commands.GPU_SLOWDOWNS_AFTER),
    judge_node=_judge_node,
    required=False,
)
