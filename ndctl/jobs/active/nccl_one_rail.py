"""NCCL all_reduce over one InfiniBand rail at a time: each reaches its share of the floor, and none falls behind."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.nccl_rails import one_rail_at_a_time
from ndctl.model.status import Group, Level

CHECK = "nccl.one-rail"


def _run(rack: RackUnderTest) -> Outcome:
    return one_rail_at_a_time(rack, CHECK)


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.NCCL,
    level=Level.ACCEPTANCE,
    title="NCCL all_reduce over one InfiniBand rail at a time reaches its share of the floor on each",
    cost_s=200,
    run=_run,
    texts=("nccl-all_reduce-DEVICE-all", "nccl-all_reduce-DEVICE-isolation"),
)
