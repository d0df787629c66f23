"""NCCL all_reduce between nodes of two racks over InfiniBand: node k of one with node k of the other, rotating."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.nccl_across import run_across
from ndctl.model.status import Group, Level

CHECK = "nccl.across-racks"


def _run(racks: RackUnderTest) -> Outcome:
    return run_across(racks, CHECK)


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.NCCL,
    level=Level.ACCEPTANCE,
    title="NCCL all_reduce between nodes of two racks reaches the floor of InfiniBand, in rotating pairs",
    cost_s=90,
    run=_run,
    texts=("nccl-all_reduce-across-turnN-NODE",),
    across=True,
)
