"""Who computes on the GPUs: information for whoever reads the other results, and never a fault."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.gpus import gpus_of, not_listed, seen_well
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Group, Level
from ndctl.profiles.schema import Profile

_ID = "gpu.processes"
_MOST_NAMED = 4
_UNLISTED_MIB = 2048  # memory that no listed process holds: more than the driver takes for itself


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    blind = not_listed(_ID, answer, "who computes", lambda gpu: True)
    facts = gpus_of(answer)
    if blind or facts is None:
        return [blind] if blind else []
    whose: dict[tuple[int, str], list[str]] = {}
    unlisted = []
    for gpu in facts.gpus:
        computing = [one for one in gpu.processes if one.kind.upper() != "G"]
        for one in computing:
            whose.setdefault((one.pid, one.name), []).append(str(gpu.index))
        if not computing and (gpu.memory_used_mib or 0) > _UNLISTED_MIB:
            unlisted.append(f"GPU {gpu.index} {(gpu.memory_used_mib or 0) / 1024:.1f} GiB")
    told = [f"{_name(name)} (pid {pid}) on GPU {', '.join(on)}" for (pid, name), on in whose.items()]
    more = f" and {len(told) - _MOST_NAMED} more" if len(told) > _MOST_NAMED else ""
    message = "; ".join(told[:_MOST_NAMED]) + more if told else "no compute process"
    if unlisted:
        message += f"; memory in use that no listed process holds: {', '.join(unlisted)}"
    return [seen_well(_ID, answer, facts.gpus, message)]


def _name(path: str) -> str:
    """The program without its folder and arguments; nvidia-smi may not tell it at all."""
    words = path.split()
    return words[0].rsplit("/", 1)[-1][:40] if words and words[0].strip("[]") not in ("N/A", "Insufficient") else "?"


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="who computes on the GPUs (information)",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_node=_judge_node,
    required=False,
)
