"""Copies inside each GPU's memory are as fast as the hardware promises, and as the rack's other GPUs."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.gpu_figures import Limits, Metric
from ndctl.jobs.nvbandwidth import Copies, measure
from ndctl.model.status import Action, Group, Level

CHECK = "gpu.hbm-bandwidth"


def _run(rack: RackUnderTest) -> Outcome:
    metric = Metric(
        check=CHECK,
        name="gpu.hbm-bandwidth",
        title="copy inside GPU memory",
        unit="GB/s",
        limits=Limits.of_bounds(rack.profile.gpu.local_copy_gb_per_s),
        cause="this GPU's memory, or its clock",
        action=Action.REPLACE_AND_REPORT,
        category="Resource.Hpc.Unhealthy.GPUMemoryBWFailure",
    )
    return measure(rack, Copies(CHECK, "hbm-bandwidth", {"device_local_copy": metric}))


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.GPU,
    level=Level.ACCEPTANCE,
    title="nvbandwidth device_local_copy of every GPU reaches its floor, and none falls behind the rack",
    cost_s=20,
    run=_run,
    texts=("hbm-bandwidth-N",),
    required=False,
    smallest=1,
)
