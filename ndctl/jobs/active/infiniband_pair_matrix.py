"""ib_write_bw between every two nodes of the rack on every rail: each rail of a node against its floor and against the
same rail of the other nodes, and each path that is slow while both its ends are fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import median

from ndctl.checks.outliers import outliers
from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.active.ib_write_bw import rails, round_of, taken
from ndctl.jobs.gpu_figures import OUTLIER_SOURCE
from ndctl.jobs.judge_pairs import PairResult, accused, judge_pairs
from ndctl.jobs.pairs import both_ways, rounds
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status

CHECK = "infiniband.pair-matrix"
_KEPT = "ib-matrix"
_FEWEST = 4  # pairs by which a rail's own figure is told


def _run(rack: RackUnderTest) -> Outcome:
    outcome = Outcome()
    devices = rails(rack.profile)
    total = sum(1 for _ in rounds(rack.nodes))
    seen: list[PairResult] = []
    for number, pairs in enumerate(islice(both_ways(rack.nodes), total), 1):
        reason = rack.may_go_on()
        if reason:
            outcome.skip(CHECK, rack.rack, f"ended after {number - 1} of {total} rounds: {reason}")
            break
        rack.say("pair matrix", f"round {number} of {total}: {len(pairs)} pairs × {len(devices)} rails", "running")
        for text in round_of(rack, pairs, devices, f"matrix{number}"):
            seen.append(taken(outcome, text, rack.profile, number, _KEPT))
    if not seen:
        return outcome
    findings = judge_pairs(seen, rack.profile, rack.rack, CHECK)
    findings += _outliers(seen)
    if len(findings) > 1 or outcome.findings:
        # A pass stands for the whole matrix, and for nothing beside it.
        findings = [finding for finding in findings if finding.status is not Status.PASS]
    outcome.findings += findings
    return outcome


def _outliers(seen: Sequence[PairResult]) -> Iterator[Finding]:
    """Rails whose typical pair is behind the same rail of the others, though above the floor."""
    blamed = accused(seen)
    for device in dict.fromkeys(pair.device for pair in seen):
        figures = {}
        for node in sorted({name for pair in seen for name in (pair.server, pair.client)}):
            own = [p.gbps for p in seen if p.device == device and node in (p.server, p.client) and p.gbps is not None]
            if len(own) >= _FEWEST:
                figures[node] = median(own)
        for one in outliers(figures):
            if (one.key, device) in blamed:
                continue
            evidence = next(p.evidence for p in seen if p.device == device and one.key in (p.server, p.client))
            yield Finding(
                check=f"{CHECK}.outlier",
                status=Status.WARN,
                subject=device,
                node=one.key,
                value=round(one.value, 1),
                unit="Gb/s",
                expected=f"the rack's median on this rail is {one.median:.0f} Gb/s",
                source=OUTLIER_SOURCE,
                message=f"typically {one.value:.0f} Gb/s with the others, {one.off:.1%} under the rack's median",
                cause="the port's PCIe path, its cable, or its link",
                action=Action.WATCH,
                evidence=evidence,
            )


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.INFINIBAND,
    level=Level.ACCEPTANCE,
    title="ib_write_bw between every two nodes on every rail: no rail behind the others, no slow path",
    cost_s=240,
    run=_run,
    texts=("ib-matrix-DEVICE-roundN",),
    smallest=3,
)
