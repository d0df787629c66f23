"""NCCL all_reduce over the rack reaches its floor, with the transport proven by its log; else the culprit is found,
and which layer it is."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.nccl_asked import in_rack
from ndctl.jobs.nccl_rack import run_in_rack
from ndctl.model.status import Group, Level

CHECK = "nccl.all-reduce"


def _run(rack: RackUnderTest) -> Outcome:
    return run_in_rack(rack, in_rack(CHECK, "all_reduce", rack.profile), layers=True)


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.NCCL,
    level=Level.STANDARD,
    title="NCCL all_reduce over the rack reaches its floor, with the transport proven by its log",
    cost_s=60,
    run=_run,
    texts=("nccl-all_reduce-all", "nccl-isolation"),
)
