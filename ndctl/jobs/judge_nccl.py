"""What a NCCL run over a rack proves: the transport it used, correct results, and its bandwidth at large messages.

Stricter than the judge of a pasted log: here it is known which nodes ran and that they are one NVLink domain.
"""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.jobs.nccl import NcclLaunch, NcclRun
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nccl_rows import Row
from ndctl.parse.nccl_tests import NcclTests, parse
from ndctl.profiles.schema import BandwidthFloor, Profile

_TRANSPORT_SOURCE = "the NCCL log of this run"


def check_id(launch: NcclLaunch) -> str:
    """ "nccl.all-reduce" """
    return f"nccl.{launch.test.replace('_', '-')}"


def judge(run: NcclRun, profile: Profile, subject: str, evidence: str, scope: str = "rack") -> list[Finding]:
    """Findings of one run over `subject` (a rack, or a rack without some nodes)."""
    check = check_id(run.launch)
    if run.log is None:
        return [_unknown(check, subject, f"not run: {run.problem}", evidence)]
    if run.log.timed_out or run.log.exit_code in (124, 137):
        return [
            Finding(
                check=f"{check}.hang",
                status=Status.FAIL,
                subject=subject,
                value=run.launch.deadline_s,
                unit="s",
                message=f"no end within {run.launch.deadline_s:.0f} s: the collective hangs",
                cause="a rank that never joined or a path that drops traffic; see the last line of each rank",
                action=Action.INVESTIGATE,
                evidence=evidence,
            )
        ]
    facts = parse(run.log.stdout, run.log.stderr)
    if not facts.rows:
        return [_without_rows(check, subject, facts, run, evidence)]
    findings = [
        *_ranks(check, subject, facts, run.launch, evidence),
        *_correctness(check, subject, facts, evidence),
        *_transport(check, subject, facts, run.launch, profile, evidence, scope),
        *_bandwidth(check, subject, facts, run.launch, profile, evidence, scope),
    ]
    if run.log.exit_code and not any(f.status is Status.FAIL for f in findings):
        findings.append(
            _unknown(
                check, subject, f"mpirun ended with exit code {run.log.exit_code} after printing results", evidence
            )
        )
    return findings


def busbw_at_large(facts: NcclTests, floor: BandwidthFloor) -> tuple[int, float] | None:
    """(bytes, GB/s) of the largest message the floor speaks of: the mean of its out-of-place and in-place columns."""
    large = [row for row in facts.rows if row.bytes >= floor.min_bytes]
    if not large:
        return None
    row = max(large, key=lambda r: r.bytes)
    values = [side.busbw for side in row.sides if side.busbw is not None]
    return (row.bytes, sum(values) / len(values)) if values else None


def _unknown(check: str, subject: str, message: str, evidence: str) -> Finding:
    return Finding(
        check=f"{check}.no-result",
        status=Status.UNKNOWN,
        subject=subject,
        message=message,
        action=Action.INVESTIGATE,
        evidence=evidence,
    )


def _without_rows(check: str, subject: str, facts: NcclTests, run: NcclRun, evidence: str) -> Finding:
    said = next(iter(facts.errors), "") or "it printed no result"
    launched = run.log is not None and facts.ranks is not None
    return Finding(
        check=f"{check}.error" if launched else f"{check}.no-result",
        # Once ranks had started, an error is the rack's; before that nothing was measured.
        status=Status.FAIL if launched else Status.UNKNOWN,
        subject=subject,
        value=run.log.exit_code if run.log else None,
        unit="exit code",
        message=said[:240],
        cause="NCCL or CUDA failed on a rank" if launched else "the launch did not get as far as NCCL",
        action=Action.INVESTIGATE,
        evidence=evidence,
    )


def _ranks(check: str, subject: str, facts: NcclTests, launch: NcclLaunch, evidence: str) -> list[Finding]:
    wanted = len(launch.nodes) * launch.gpus_per_node
    if facts.ranks in (None, wanted) and facts.communicators == 1:
        return []
    return [
        Finding(
            check=f"{check}.ranks",
            status=Status.FAIL,
            subject=subject,
            value=facts.ranks,
            unit="ranks",
            expected=f"{wanted} in one communicator",
            source="the launch",
            message=f"{facts.ranks} ranks in {facts.communicators} communicators ran, {wanted} were asked for",
            cause="the test was built without MPI, or ranks were lost",
            action=Action.FIX_IMAGE,
            evidence=evidence,
        )
    ]


def _correctness(check: str, subject: str, facts: NcclTests, evidence: str) -> list[Finding]:
    wrong = sum(side.wrong or 0 for row in facts.rows for side in row.sides)
    bounds = facts.out_of_bounds or 0
    if not wrong and not bounds:
        if facts.checked:
            return []
        return [
            _unknown(f"{check}.correctness", subject, "results were not compared with what they should be", evidence)
        ]
    return [
        Finding(
            check=f"{check}.wrong",
            status=Status.FAIL,
            subject=subject,
            value=wrong or bounds,
            unit="wrong elements",
            expected="0",
            source="nccl-tests",
            message=f"wrong results at {_sizes([r for r in facts.rows if any(s.wrong for s in r.sides)])}",
            cause="data is corrupted on the way or in memory: a training run would be ruined silently",
            action=Action.INVESTIGATE,
            evidence=evidence,
        )
    ]


def _sizes(rows: Sequence[Row]) -> str:
    return ", ".join(str(row.bytes) for row in rows[:4]) + " bytes" if rows else "some size"


def _transport(
    check: str, subject: str, facts: NcclTests, launch: NcclLaunch, profile: Profile, evidence: str, scope: str
) -> list[Finding]:
    """A figure counts only with proof of the transport it was asked to measure."""
    if len(launch.nodes) < 2:
        return []
    wanted = "MNNVL" if scope == "rack" and profile.nvlink.domain.value == "rack" else "NET/IB"
    if facts.transport is None:
        return [_unknown(f"{check}.transport", subject, "the log does not show which transport was used", evidence)]
    if wanted in facts.transport and (wanted != "MNNVL" or not _leaves_the_rack(facts)):
        return []
    return [
        Finding(
            check=f"{check}.transport",
            status=Status.FAIL,
            subject=subject,
            value=facts.transport,
            expected=wanted,
            source=_TRANSPORT_SOURCE,
            message=f"the log says {facts.transport}, not {wanted}: NCCL fell back",
            cause="IMEX is not ready or its channel is missing on a node, or MNNVL is switched off"
            if wanted == "MNNVL"
            else "InfiniBand was not used: devices not found, or another network chosen",
            action=Action.RESTART_IMEX if wanted == "MNNVL" else Action.INVESTIGATE,
            evidence=evidence,
        )
    ]


def _leaves_the_rack(facts: NcclTests) -> bool:
    return any(path.startswith("NET/") for path, count in facts.paths.items() if count)


def _bandwidth(
    check: str, subject: str, facts: NcclTests, launch: NcclLaunch, profile: Profile, evidence: str, scope: str
) -> list[Finding]:
    floor = profile.floor(launch.test, scope, len(launch.nodes))
    if floor is None:
        text = f"profile {profile.name} has no floor for {launch.test} over {len(launch.nodes)} nodes ({scope})"
        return [Finding(check=check, status=Status.SKIP, subject=subject, message=text, evidence=evidence)]
    measured = busbw_at_large(facts, floor)
    if measured is None:
        return [_unknown(check, subject, f"no row of {floor.min_bytes} bytes or more", evidence)]
    size, busbw = measured
    status = (
        Status.FAIL
        if busbw < floor.fail_below.value
        else Status.WARN
        if busbw < floor.warn_below.value
        else Status.PASS
    )
    limit = floor.fail_below if status is Status.FAIL else floor.warn_below
    expected = f"about {floor.expected.value:g} GB/s, at least {limit.value:g}"
    return [
        Finding(
            check=check if status is Status.PASS else f"{check}.slow",
            status=status,
            subject=subject,
            value=round(busbw, 2),
            unit="GB/s",
            expected=expected,
            source=limit.origin,
            message=f"NCCL {launch.test} {busbw:.0f} GB/s at {size / 2**30:g} GiB over {len(launch.nodes)} nodes",
            cause="" if status is Status.PASS else "a slow node, link or GPU among them",
            action=Action.NONE if status is Status.PASS else Action.INVESTIGATE,
            evidence=evidence,
            health_category="",
        )
    ]
