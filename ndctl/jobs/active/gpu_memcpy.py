"""Copies between each GPU and its CPU, both ways, are as fast as the hardware promises and as the rack's others."""

from __future__ import annotations

from ndctl.checks.texts.nvbandwidth import FAIL_SHARE, WARN_SHARE
from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.gpu_figures import Limits, Metric
from ndctl.jobs.nvbandwidth import Copies, measure
from ndctl.model.status import Action, Group, Level
from ndctl.profiles.schema import Known

CHECK = "gpu.memcpy"


def _metric(test: str, title: str, known: Known[float] | None) -> Metric:
    return Metric(
        check=CHECK,
        name=f"gpu.memcpy.{test}",
        title=title,
        unit="GB/s",
        limits=Limits.of_known(known, WARN_SHARE, FAIL_SHARE),
        cause="the link between this GPU and its CPU (C2C or PCIe), or where the host's memory lies",
        action=Action.REPLACE_AND_REPORT,
        category="Resource.Hpc.Unhealthy.HpcGenericFailure",
        detail=test,
    )


def _run(rack: RackUnderTest) -> Outcome:
    gpu = rack.profile.gpu
    metrics = {
        "host_to_device_memcpy_ce": _metric("to-device", "copy from host to GPU", gpu.host_to_device_gb_per_s),
        "device_to_host_memcpy_ce": _metric("to-host", "copy from GPU to host", gpu.device_to_host_gb_per_s),
    }
    return measure(rack, Copies(CHECK, "memcpy", metrics))


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.GPU,
    level=Level.ACCEPTANCE,
    title="nvbandwidth between every GPU and its CPU, both ways, is in line with the profile and the rack",
    cost_s=25,
    run=_run,
    texts=("memcpy-N",),
    required=False,
    smallest=1,
)
