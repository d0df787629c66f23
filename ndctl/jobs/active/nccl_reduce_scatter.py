"""NCCL reduce_scatter over the rack: right results over the proven path; its figure is kept: no floor is published."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.nccl_asked import in_rack
from ndctl.jobs.nccl_rack import run_in_rack
from ndctl.model.status import Group, Level

CHECK = "nccl.reduce-scatter"


def _run(rack: RackUnderTest) -> Outcome:
    return run_in_rack(rack, in_rack(CHECK, "reduce_scatter", rack.profile))


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.NCCL,
    level=Level.ACCEPTANCE,
    title="NCCL reduce_scatter over the rack gives right results over the proven path",
    cost_s=45,
    run=_run,
    texts=("nccl-reduce_scatter-all", "nccl-reduce_scatter-isolation"),
)
