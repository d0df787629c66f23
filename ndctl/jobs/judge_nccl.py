"""What a NCCL run over a rack proves: the transport it used, correct results, and its bandwidth at large messages.

Stricter than the judge of a pasted log: here it is known which nodes ran and that they are one NVLink domain, so
what the log does not show is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.checks.nccl_bandwidth import lowest, size
from ndctl.checks.nccl_complaints import complaint_findings
from ndctl.jobs.isolation import GroupVerdict
from ndctl.jobs.judge_nccl_end import ended_early, hang, ran_out_of_time, unknown
from ndctl.jobs.nccl import NcclLaunch, NcclRun
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nccl_rows import Row
from ndctl.parse.nccl_tests import NcclTests, parse
from ndctl.profiles.schema import BandwidthFloor, Profile

_TRANSPORT_SOURCE = "the NCCL log of this run"
_VERDICTS = {
    "hang": GroupVerdict.HANG,
    "slow": GroupVerdict.SLOW,
    "transport": GroupVerdict.SLOW,
    "nvls": GroupVerdict.SLOW,
}


def check_id(launch: NcclLaunch) -> str:
    """ "nccl.all-reduce" """
    return f"nccl.{launch.test.replace('_', '-')}"


def judge(run: NcclRun, profile: Profile, subject: str, evidence: str, scope: str = "rack") -> list[Finding]:
    """Findings of one run over `subject` (a rack, or a rack without some nodes)."""
    check = check_id(run.launch)
    if run.log is None:
        return [unknown(check, "no-result", subject, f"not run: {run.problem}", evidence)]
    facts = parse(run.log.stdout, run.log.stderr)
    if ran_out_of_time(run.launch, run.log):
        return [hang(check, subject, facts, run.launch, evidence)]
    if not facts.rows:
        return [ended_early(check, subject, facts, run.launch, run.log, evidence)]
    findings = [
        *_ranks(check, subject, facts, run.launch, evidence),
        *_correctness(check, subject, facts, evidence),
        *_transport(check, subject, facts, run.launch, profile, evidence, scope),
        *_bandwidth(check, subject, facts, run.launch, profile, evidence, scope),
        *_warnings(check, subject, facts, evidence),
    ]
    if run.log.exit_code and not any(f.check == f"{check}.wrong" for f in findings):
        findings = [f for f in findings if f.status is not Status.PASS]
        findings.append(ended_early(check, subject, facts, run.launch, run.log, evidence))
    elif not facts.complete:
        findings = [f for f in findings if f.status is not Status.PASS]
        findings.append(unknown(check, "cut", subject, "the output ends before the tool's closing lines", evidence))
    return findings


def verdict(findings: Sequence[Finding]) -> GroupVerdict | None:
    """What a group's run says for the isolation; None when nothing was measured, or not what was asked for."""
    if any(f.check.endswith(".ranks") for f in findings):
        return None
    bad = [f for f in findings if f.status in (Status.FAIL, Status.WARN) and f.check.rpartition(".")[2] != "warning"]
    if not bad:
        # What is not proven (correctness, transport) is told elsewhere; a figure is a figure.
        return GroupVerdict.GOOD if any(f.status is Status.PASS for f in findings) else None
    worst = next((f for f in bad if f.status is Status.FAIL), bad[0])
    return _VERDICTS.get(worst.check.rpartition(".")[2], GroupVerdict.ERROR)


def busbw_at_large(facts: NcclTests, floor: BandwidthFloor) -> tuple[int, float] | None:
    """(bytes, GB/s) of the largest message the floor speaks of: the slower of its out-of-place and in-place side."""
    large = [row for row in facts.rows if row.bytes >= floor.min_bytes]
    if not large:
        return None
    row = max(large, key=lambda r: r.bytes)
    value = lowest(row)
    return None if value is None else (row.bytes, value)


def _ranks(check: str, subject: str, facts: NcclTests, launch: NcclLaunch, evidence: str) -> list[Finding]:
    wanted = len(launch.nodes) * launch.gpus_per_node
    if facts.ranks == wanted and facts.communicators == 1:
        return []
    if facts.ranks is None:
        return [unknown(check, "ranks", subject, f"the output does not show that {wanted} ranks took part", evidence)]
    split = facts.communicators > 1
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
            cause="the test was built without MPI: every process ran for itself" if split else "ranks were lost",
            action=Action.FIX_IMAGE if split else Action.INVESTIGATE,
            evidence=evidence,
        )
    ]


def _correctness(check: str, subject: str, facts: NcclTests, evidence: str) -> list[Finding]:
    bad = [row for row in facts.rows if any(side.wrong for side in row.sides)]
    wrong = sum(side.wrong or 0 for row in bad for side in row.sides)
    if not wrong and not facts.out_of_bounds:
        if all(side.checked for row in facts.rows for side in row.sides):
            return []
        text = f"{'some results' if facts.checked else 'results'} were not compared with what they should be"
        return [unknown(check, "correctness", subject, text, evidence)]
    count = wrong or max(facts.out_of_bounds or 0, 0)
    return [
        Finding(
            check=f"{check}.wrong",
            status=Status.FAIL,
            subject=subject,
            value=count or None,
            unit="wrong elements" if count else "",
            expected="0",
            source="nccl-tests",
            message=f"wrong results{_where(bad)}",
            cause="data is corrupted on the way or in memory: a training run would be ruined silently",
            action=Action.INVESTIGATE,
            evidence=evidence,
        )
    ]


def _where(rows: Sequence[Row]) -> str:
    """ " at 1 GiB out-of-place, 16 GiB in-place": a fault of one side only is a hint."""
    places = []
    for row in rows[:4]:
        sides = (("out-of-place", row.out_of_place), ("in-place", row.in_place))
        places.append(f"{size(row.bytes)} {' and '.join(name for name, side in sides if side and side.wrong)}")
    return f" at {', '.join(places)}" if places else ", says the tool's last line"


def _transport(
    check: str, subject: str, facts: NcclTests, launch: NcclLaunch, profile: Profile, evidence: str, scope: str
) -> list[Finding]:
    """A figure counts only with proof of the transport it was asked to measure."""
    if len(launch.nodes) < 2:
        return []
    wanted = "MNNVL" if scope == "rack" and profile.nvlink.domain.value == "rack" else "NET/IB"
    # Channels are connected when an algorithm first needs them: with NVLS alone none may be printed, while every rank
    # says that the whole communicator is one NVLink domain.
    if facts.transport is None and wanted == "MNNVL" and facts.mnnvl:
        return _nvls(check, subject, facts, launch, evidence)
    if facts.transport is None:
        text = "the log does not show which transport was used"
        return [unknown(check, "transport", subject, text, evidence)]
    if wanted in facts.transport:
        return _nvls(check, subject, facts, launch, evidence) if wanted == "MNNVL" else []
    switched_off = wanted == "MNNVL" and launch.environment.get("NCCL_MNNVL_ENABLE") == "0"
    causes = {
        "MNNVL": "IMEX is not ready or its channel is missing on a node",
        "NET/IB": "InfiniBand was not used: devices not found, or another network chosen",
    }
    return [
        Finding(
            check=f"{check}.transport",
            status=Status.FAIL,
            subject=subject,
            value=facts.transport,
            expected=wanted,
            source=_TRANSPORT_SOURCE,
            message=f"the log says {facts.transport}, not {wanted}: NCCL fell back",
            cause="NCCL_MNNVL_ENABLE=0 is set in this launch" if switched_off else causes[wanted],
            action=Action.FIX_INVENTORY
            if switched_off
            else (Action.RESTART_IMEX if wanted == "MNNVL" else Action.INVESTIGATE),
            evidence=evidence,
        )
    ]


def _nvls(check: str, subject: str, facts: NcclTests, launch: NcclLaunch, evidence: str) -> list[Finding]:
    if facts.nvls is not False or launch.environment.get("NCCL_NVLS_ENABLE") == "0":
        return []
    return [
        Finding(
            check=f"{check}.nvls",
            status=Status.WARN,
            subject=subject,
            value="not available",
            expected="available",
            source=_TRANSPORT_SOURCE,
            message="NVLink SHARP (NVLS) multicast is not available",
            cause="IMEX or the fabric's multicast teams",
            action=Action.INVESTIGATE,
            evidence=evidence,
        )
    ]


def _warnings(check: str, subject: str, facts: NcclTests, evidence: str) -> list[Finding]:
    """What NCCL complained of although the run came to its end."""
    complaints = [c for c in complaint_findings(facts.warnings) if c.status is Status.FAIL]
    return [
        Finding(
            check=f"{check}.warning",
            status=Status.WARN,
            subject=subject,
            message=complaint.message,
            cause=complaint.cause,
            action=Action.INVESTIGATE,
            evidence=evidence,
        )
        for complaint in complaints
    ]


def _bandwidth(
    check: str, subject: str, facts: NcclTests, launch: NcclLaunch, profile: Profile, evidence: str, scope: str
) -> list[Finding]:
    floor = profile.floor(launch.test, scope, len(launch.nodes))
    if floor is None:
        text = f"profile {profile.name} has no floor for {launch.test} over {len(launch.nodes)} nodes ({scope})"
        return [Finding(check=check, status=Status.SKIP, subject=subject, message=text, evidence=evidence)]
    measured = busbw_at_large(facts, floor)
    if measured is None:
        return [unknown(check, "no-result", subject, f"no figure at {size(floor.min_bytes)} or more", evidence)]
    bytes_, busbw = measured
    status = (
        Status.FAIL
        if busbw < floor.fail_below.value
        else Status.WARN
        if busbw < floor.warn_below.value
        else Status.PASS
    )
    limit = floor.fail_below if status is Status.FAIL else floor.warn_below
    return [
        Finding(
            check=check if status is Status.PASS else f"{check}.slow",
            status=status,
            subject=subject,
            value=round(busbw, 2),
            unit="GB/s",
            expected=f"about {floor.expected.value:g} GB/s, at least {limit.value:g}",
            source=limit.origin,
            message=f"NCCL {launch.test} {busbw:.0f} GB/s at {size(bytes_)} over {len(launch.nodes)} nodes",
            cause="" if status is Status.PASS else "a slow node, link or GPU among them",
            action=Action.NONE if status is Status.PASS else Action.INVESTIGATE,
            evidence=evidence,
        )
    ]
