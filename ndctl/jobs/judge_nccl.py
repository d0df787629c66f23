"""What a NCCL run over a rack proves: the transport it used, correct results, and its bandwidth at large messages.

Stricter than the judge of a pasted log: here it is known which nodes ran and that they are one NVLink domain, so
what the log does not show is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.checks.nccl_bandwidth import BANDWIDTH_BOUND, lowest, size
from ndctl.checks.nccl_complaints import complaint_findings
from ndctl.jobs.isolation import GroupVerdict
from ndctl.jobs.judge_nccl_end import ended_early, hang, ran_out_of_time, unknown
from ndctl.jobs.judge_nccl_path import transport_findings
from ndctl.jobs.nccl import NcclLaunch, NcclRun
from ndctl.jobs.nccl_asked import NOT_IN_PLACE, Asked, in_rack
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nccl_rows import Row
from ndctl.parse.nccl_tests import NcclTests, parse
from ndctl.profiles.schema import Profile

_SHARE_OF_ALL_REDUCE = 0.25  # a ring without NVLS reaches about half of all_reduce's figure, the others still more
_VERDICTS = {
    "hang": GroupVerdict.HANG,
    "slow": GroupVerdict.SLOW,
    "transport": GroupVerdict.SLOW,
    "nvls": GroupVerdict.SLOW,
    "gdr": GroupVerdict.SLOW,
    "rails": GroupVerdict.SLOW,
}


def judge(run: NcclRun, profile: Profile, subject: str, evidence: str, asked: Asked | None = None) -> list[Finding]:
    """Findings of one run over `subject` (a rack, or a rack without some nodes).

    asked: what the run was for; None: its collective over the path that joins the rack's nodes
    """
    launch = run.launch
    if asked is None:
        asked = in_rack(f"nccl.{launch.test.replace('_', '-')}", launch.test, profile)
    check = asked.check
    if run.log is None:
        return [unknown(check, "no-result", subject, f"not run: {run.problem}", evidence)]
    facts = parse(run.log.stdout, run.log.stderr)
    if ran_out_of_time(launch, run.log):
        return [hang(check, subject, facts, launch, evidence)]
    if not facts.rows:
        return [ended_early(check, subject, facts, launch, run.log, evidence)]
    findings = [
        *_ranks(check, subject, facts, launch, evidence),
        *_correctness(check, subject, facts, asked, evidence),
        *transport_findings(run, facts, asked, subject, evidence),
        *_bandwidth(asked, subject, facts, launch, profile, evidence),
        *_warnings(check, subject, facts, evidence),
    ]
    if run.log.exit_code and not any(f.check == f"{check}.wrong" for f in findings):
        findings = [f for f in findings if f.status is not Status.PASS]
        findings.append(ended_early(check, subject, facts, launch, run.log, evidence))
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


def busbw_at_large(facts: NcclTests, at_least: int) -> tuple[int, float] | None:
    """(bytes, GB/s) of the largest message of so many bytes or more: the slower of its out-of-place and in-place
    side."""
    large = [row for row in facts.rows if row.bytes >= at_least]
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


def _correctness(check: str, subject: str, facts: NcclTests, asked: Asked, evidence: str) -> list[Finding]:
    bad = [row for row in facts.rows if any(side.wrong for side in row.sides)]
    wrong = sum(side.wrong or 0 for row in bad for side in row.sides)
    if not wrong and not facts.out_of_bounds:
        if facts.rows and all(_compared(row, asked) for row in facts.rows):
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


def _compared(row: Row, asked: Asked) -> bool:
    """Both sides, except where the tool compares no in-place result of this collective."""
    if asked.test in NOT_IN_PLACE:
        return row.out_of_place is not None and row.out_of_place.checked
    return all(side.checked for side in row.sides)


def _where(rows: Sequence[Row]) -> str:
    """ " at 1 GiB out-of-place, 16 GiB in-place": a fault of one side only is a hint."""
    places = []
    for row in rows[:4]:
        sides = (("out-of-place", row.out_of_place), ("in-place", row.in_place))
        places.append(f"{size(row.bytes)} {' and '.join(name for name, side in sides if side and side.wrong)}")
    return f" at {', '.join(places)}" if places else ", says the tool's last line"


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
    asked: Asked, subject: str, facts: NcclTests, launch: NcclLaunch, profile: Profile, evidence: str
) -> list[Finding]:
    nodes = len(launch.nodes)
    floor = asked.floor(profile, nodes)
    measured = busbw_at_large(facts, floor.min_bytes if floor is not None else BANDWIDTH_BOUND)
    if measured is None:
        wanted = size(floor.min_bytes if floor is not None else BANDWIDTH_BOUND)
        return [unknown(asked.check, "no-result", subject, f"no figure at {wanted} or more", evidence)]
    bytes_, busbw = measured
    shown = f"NCCL {asked.spoken} {busbw:.0f} GB/s at {size(bytes_)} over {nodes} nodes"
    if floor is None:
        return [_without_floor(asked, subject, shown, busbw, profile, nodes, evidence)]
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
            check=asked.check if status is Status.PASS else f"{asked.check}.slow",
            status=status,
            subject=subject,
            value=round(busbw, 2),
            unit="GB/s",
            expected=f"about {floor.expected.value:g} GB/s, at least {limit.value:g}",
            source=limit.origin,
            message=shown,
            cause="" if status is Status.PASS else "a slow node, link or GPU among them",
            action=Action.NONE if status is Status.PASS else Action.INVESTIGATE,
            evidence=evidence,
        )
    ]


def _without_floor(
    asked: Asked, subject: str, shown: str, busbw: float, profile: Profile, nodes: int, evidence: str
) -> Finding:
    """No figure is published: transport and correctness judge, and the measurement is kept for the rack's history.

    Only what no sound path gives, less than a share of another collective's floor over the same path, is a fault.
    """
    reference = profile.floor("all_reduce", asked.scope, nodes)
    least = reference.fail_below.value * _SHARE_OF_ALL_REDUCE if reference is not None else 0.0
    slow = busbw < least or busbw <= 0
    return Finding(
        check=f"{asked.check}.slow" if slow else asked.check,
        status=Status.FAIL if slow else Status.PASS,
        subject=subject,
        value=round(busbw, 2),
        unit="GB/s",
        expected=f"no floor is published; at least {least:g} over this path" if least else "no floor is published",
        source=f"{_SHARE_OF_ALL_REDUCE:g} of all_reduce's floor: {reference.fail_below.origin}" if reference else "",
        message=shown if slow else f"{shown}; no floor is published: judged by its transport and its results",
        cause="a slow node, link or GPU among them" if slow else "",
        action=Action.INVESTIGATE if slow else Action.NONE,
        evidence=evidence,
    )
