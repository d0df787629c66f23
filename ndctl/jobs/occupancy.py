"""Who uses a node, from what schedules it: Slurm, Kubernetes, else compute processes and load.

Only a node that all who answer call idle or drained may be tested. Whoever says it is in use is believed over all
others; a scheduler that is there and does not answer leaves the node unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ndctl.jobs.occupancy_commands import COMPUTE_PROCESSES, KUBERNETES, LOAD, NOBODY_TO_ASK, SLURM
from ndctl.model.answers import Command, CommandResult, NodeAnswer
from ndctl.parse.kube_node import KubePod
from ndctl.parse.kube_node import parse as parse_kubernetes
from ndctl.parse.slurm_node import SlurmFacts, SlurmNode
from ndctl.parse.slurm_node import parse as parse_slurm

# A job on CPUs alone disturbs a collective's proxy threads. Source of the threshold: ndctl, 2026-12.
BUSY_LOAD_SHARE = 0.25  # of the node's CPUs, 1-minute average
_LOAD_ALWAYS_IDLE = 4.0  # a machine of few CPUs reaches a quarter of them by itself

_ALLOCATED = ("ALLOCATED", "MIXED", "COMPLETING", "PERFCTRS")
# About to be taken for a job or taken away; a drained node takes none. BLOCKED: kept free beside a job of others.
_SOON = ("RESERVED", "PLANNED", "BLOCKED", "POWERING_UP", "POWER_UP")
_GOING = ("REBOOT_REQUESTED", "REBOOT_ISSUED", "POWER_DOWN", "POWERING_DOWN")
_CLOSED = ("DRAIN", "MAINTENANCE", "DOWN", "FAIL", "FUTURE")
_DEVICES = ("nvidia.com/", "rdma/", "mellanox.com/")
_SLURM_AWAY = "its controller, its key service (munge) or its configuration cannot be reached from the node"
_TOOL_FAILS = "nvidia-smi is missing, fails or hangs there"
_FREE = ("IDLE", "DOWN", "FUTURE")


class Use(StrEnum):
    FREE = "free"
    BUSY = "busy"
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`said`: who uses it, or what does not tell, then with a likely `cause`; for a free node what vouches for it."""

    use: Use
    said: str = ""
    cause: str = ""


ASKED_FIRST = (SLURM, KUBERNETES, COMPUTE_PROCESSES, LOAD)
"""What to ask before anything runs. Between ndctl's own tests the load is theirs and is not asked."""


def worth_asking_again(answers: Iterable[NodeAnswer]) -> tuple[Command, ...]:
    """Those that told something on any node; a kubectl whose server is away costs its deadline each time."""
    told = list(answers)
    slurm = any(_slurm(answer.results.get(SLURM.id)) for answer in told)
    kubernetes = any(_kubernetes(answer.results.get(KUBERNETES.id)) for answer in told)
    return (*((SLURM,) if slurm else ()), *((KUBERNETES,) if kubernetes else ()), COMPUTE_PROCESSES)


def occupancy(answer: NodeAnswer) -> Occupancy:
    """The node's state from one answer to these commands."""
    results = answer.results
    said = [
        _slurm(results.get(SLURM.id)),
        _kubernetes(results.get(KUBERNETES.id)),
        _processes(results.get(COMPUTE_PROCESSES.id)),
        _load(results.get(LOAD.id)),
    ]
    for use in (Use.BUSY, Use.UNTOLD):
        if told := [one for one in said if one is not None and one.use is use]:
            causes = dict.fromkeys(one.cause for one in told if one.cause)
            return Occupancy(use, "; ".join(one.said for one in told), "; ".join(causes))
    return Occupancy(Use.FREE, "; ".join(one.said for one in said if one is not None and one.said))


def _slurm(result: CommandResult | None) -> Occupancy | None:
    """None where no Slurm schedules the node."""
    if result is None or result.missing_tool:
        return None
    facts = parse_slurm(result.stdout, result.stderr)
    lost = result.exit_code == NOBODY_TO_ASK
    if not lost and not facts.nodes and (facts.not_found or facts.not_configured):
        return None
    if lost or result.timed_out or result.truncated or result.exit_code != 0 or not facts.nodes:
        why = "no answer in time" if result.timed_out else next(iter(facts.problems[-1:]), "no answer")
        return Occupancy(Use.UNTOLD, f"Slurm does not tell whether it is in use ({why})", _SLURM_AWAY)
    for node in facts.nodes:
        if _allocated(node):
            return Occupancy(Use.BUSY, f"Slurm says {node.state}{_jobs(facts)}")
        if not node.flags & set(_CLOSED) and (node.flags & set(_SOON)):
            return Occupancy(Use.BUSY, f"Slurm says {node.state}")
        if node.flags & set(_GOING):
            return Occupancy(Use.BUSY, f"Slurm says {node.state}: it is about to go away")
        if not node.flags & set(_FREE):
            said = f"Slurm says {node.state or 'no state'}, which tells nothing of its use"
            return Occupancy(Use.UNTOLD, said, "its controller has not heard of the node since it began")
    return Occupancy(Use.FREE, f"Slurm says {facts.nodes[0].state}")


def _allocated(node: SlurmNode) -> bool:
    """A node can be called IDLE while CPUs of it are still a job's."""
    return bool(node.flags & set(_ALLOCATED)) or bool(node.cpus_allocated) or bool(node.tres_allocated)


def _jobs(facts: SlurmFacts) -> str:
    told = [f"job {job.id} of {job.user}, {job.name}" for job in facts.jobs[:3]]
    more = [f"{len(facts.jobs) - 3} more"] if len(facts.jobs) > 3 else []
    return f" ({'; '.join([*told, *more])})" if told else ""


def _kubernetes(result: CommandResult | None) -> Occupancy | None:
    """None where kubectl is not there, not configured, or cannot tell: the processes then decide."""
    if result is None or result.exit_code != 0 or result.truncated:
        return None
    facts = parse_kubernetes(result.stdout, result.stderr)
    if not facts.complete:
        return None
    using = [(pod, devices) for pod in facts.pods if not pod.ended and (devices := _devices(pod))]
    if using:
        first, what = using[0]
        more = f" and {len(using) - 1} more" if len(using) > 1 else ""
        return Occupancy(Use.BUSY, f"Kubernetes runs pod {first.name} there ({what}){more}")
    closed = facts.cordoned or any(effect in ("NoSchedule", "NoExecute") for effect, _ in facts.taints)
    return Occupancy(Use.FREE, f"Kubernetes runs no pod with GPUs there{', and lets none come' if closed else ''}")


def _devices(pod: KubePod) -> str:
    """What a pod holds that a test would disturb: GPUs, and the fabric's adapters. On such nodes claims are of both."""
    held = [f"{name} {n}" for name, n in pod.resources if name.startswith(_DEVICES) or "gpu" in name.lower()]
    return ", ".join([*held, *(f"claim {name}" for name in pod.claims)])


def _processes(result: CommandResult | None) -> Occupancy | None:
    untold = Occupancy(Use.UNTOLD, "nvidia-smi does not tell whether its GPUs are in use", _TOOL_FAILS)
    if result is None or result.exit_code != 0:
        return untold
    rows = [[cell.strip() for cell in line.split(",")] for line in result.stdout.splitlines() if line.strip()]
    using = {row[1]: row[2].rpartition("/")[2] for row in rows if len(row) >= 3 and row[1].isdigit()}
    if using:
        names = ", ".join(f"{name or 'process'} {pid}" for pid, name in list(using.items())[:3])
        more = f" and {len(using) - 3} more" if len(using) > 3 else ""
        return Occupancy(Use.BUSY, f"its GPUs are in use: {names}{more}")
    # It says something, and nothing that is known: a field is not supported, or a complaint.
    return untold if rows else Occupancy(Use.FREE)


def _load(result: CommandResult | None) -> Occupancy | None:
    """None where it is not told: load alone only adds to what processes and schedulers say."""
    words = result.stdout.split() if result is not None and result.exit_code == 0 else []
    try:
        load, cpus = float(words[0]), int(words[-1])
    except (IndexError, ValueError):
        return None
    limit = max(_LOAD_ALWAYS_IDLE, BUSY_LOAD_SHARE * cpus)
    if len(words) < 6 or cpus < 1 or not load > limit:
        return None
    return Occupancy(Use.BUSY, f"its load is {load:.1f} on {cpus} CPUs (idle up to {limit:g}, ndctl's own threshold)")
