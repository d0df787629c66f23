"""What schedules a node, where a fault installs it there: Slurm, Kubernetes, or only somebody's processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ndctl.sim.faults import Fault

IDLE_LOAD = 0.21


@dataclass(slots=True)
class Schedulers:
    """slurm_state: as scontrol prints it, "" where Slurm is not installed; slurm_away: its controller does not answer.
    kubernetes: whether kubectl is installed and configured; pod: "namespace/name" of one that holds all GPUs.
    load: 1-minute average."""

    slurm_state: str = ""
    slurm_away: bool = False
    slurm_reason: str = ""
    kubernetes: bool = False
    cordoned: bool = False
    pod: str = ""
    load: float = IDLE_LOAD

    @property
    def tools(self) -> tuple[str, ...]:
        """What is installed on the node."""
        slurm = ("scontrol", "squeue") if self.slurm_state or self.slurm_away else ()
        return (*slurm, *(("kubectl",) if self.kubernetes else ()))


def build_schedulers(own: Sequence[Fault], vcpus: int) -> Schedulers:
    """`own`: the faults planted on the node."""
    seen = Schedulers()
    for fault in own:
        match fault.kind:
            case "slurm-allocated":
                seen.slurm_state = str(fault["state"])
            case "slurm-drained":
                seen.slurm_state, seen.slurm_reason = "IDLE+DRAIN", str(fault["reason"])
            case "slurm-away":
                seen.slurm_away = True
            case "k8s-busy":
                seen.kubernetes, seen.pod = True, str(fault["pod"])
            case "k8s-cordoned":
                seen.kubernetes = seen.cordoned = True
            case "cpu-busy":
                seen.load = float(fault["share"]) * vcpus
    return seen
