"""Every GPU reaches its GEMM rate with all GPUs of the rack under load: the profile's floor, and the rack's others."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck
from ndctl.jobs.gpu_load import GEMM, judge_gemm
from ndctl.model.status import Group, Level

ACTIVE = ActiveCheck(
    id=GEMM,
    group=Group.GPU,
    level=Level.ACCEPTANCE,
    title="60 s of GEMM on all GPUs at once reach the floor on each, and none falls behind the rack",
    cost_s=90,
    run=judge_gemm,
    texts=("gpu-load-N",),
    smallest=1,
)
