"""Every GPU of the rack copies to every other over NVLink at full rate: nvbandwidth's multi-node build under mpirun."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck
from ndctl.jobs.nvlink_matrix import CHECK, measure
from ndctl.model.status import Group, Level

ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.NVLINK,
    level=Level.ACCEPTANCE,
    title="nvbandwidth between all GPUs of the rack: no GPU's row and column stand out, no path is slow",
    cost_s=600,
    run=measure,
    texts=("nvbandwidth-matrix-N",),
    # Azure's images have the program, and not always its multi-node build.
    required=False,
    applies=lambda profile: profile.nvlink.domain.value == "rack",
)
