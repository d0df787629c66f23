"""NCCL sendrecv over the rack: right results over the proven path; its figure is kept, as no floor is published."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.nccl_asked import in_rack
from ndctl.jobs.nccl_rack import run_in_rack
from ndctl.model.status import Group, Level

CHECK = "nccl.sendrecv"


def _run(rack: RackUnderTest) -> Outcome:
    return run_in_rack(rack, in_rack(CHECK, "sendrecv", rack.profile))


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.NCCL,
    level=Level.ACCEPTANCE,
    title="NCCL sendrecv over the rack gives right results over the proven path",
    cost_s=45,
    run=_run,
    texts=("nccl-sendrecv-all", "nccl-sendrecv-isolation"),
)
