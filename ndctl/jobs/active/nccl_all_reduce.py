"""NCCL all_reduce over the rack reaches its floor, with the transport proven by its log; else the culprit is found."""

from __future__ import annotations

from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.nccl_rack import NcclOverRack
from ndctl.model.status import Group, Level


def _run(rack: RackUnderTest) -> Outcome:
    scope = "rack" if rack.profile.nvlink.domain.value == "rack" else "infiniband"
    test = NcclOverRack(
        rack.runner,
        rack.profile,
        rack=rack.rack,
        token=rack.token,
        environment=rack.environment(scope),
        host_keys=rack.host_keys,
        renew=rack.may_go_on,
        say=lambda message, status: rack.say("NCCL all_reduce", message, status),
    )
    with rack.stopping.ended_by(test.stop):
        return test.test(rack.nodes, rack.suspects)


ACTIVE = ActiveCheck(
    id="nccl.all-reduce",
    group=Group.NCCL,
    level=Level.STANDARD,
    title="NCCL all_reduce over the rack reaches its floor, with the transport proven by its log",
    cost_s=60,
    run=_run,
    texts=("nccl-all_reduce-all", "nccl-isolation"),
)
