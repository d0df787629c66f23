"""NCCL all_reduce over the rack with NVLink between the nodes switched off: InfiniBand alone reaches its floor, over
all rails and with GPUDirect."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.nccl_asked import over_infiniband
from ndctl.jobs.nccl_rack import run_in_rack
from ndctl.model.status import Group, Level

CHECK = "nccl.all-reduce-ib"


def _run(rack: RackUnderTest) -> Outcome:
    return run_in_rack(rack, over_infiniband(CHECK, rack.profile), layers=True)


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.NCCL,
    level=Level.ACCEPTANCE,
    title="NCCL all_reduce over InfiniBand only reaches its floor over all rails, with GPUDirect",
    cost_s=60,
    run=_run,
    texts=("nccl-all_reduce-ib-all", "nccl-all_reduce-ib-isolation"),
    # Where NVLink ends at the node, nccl.all-reduce is this test.
    applies=lambda profile: profile.nvlink.domain.value == "rack",
)
