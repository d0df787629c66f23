"""Clocks and temperatures under load: no slowdown for heat or the power brake, memory below its limit, no GPU far
hotter or slower than the rack's others. The load is that of gpu.gemm, which is run once for both."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck
from ndctl.jobs.gpu_load import judge_thermals
from ndctl.jobs.thermals import CHECK
from ndctl.model.status import Group, Level

ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.GPU,
    level=Level.ACCEPTANCE,
    title="under 60 s of GEMM no GPU slows down for heat, nor is far hotter than the rack's others",
    cost_s=90,
    run=judge_thermals,
    texts=("gpu-load-N",),
    smallest=1,
)
