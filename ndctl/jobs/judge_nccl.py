"""What a NCCL run over a rack proves: the transport it used, correct results, and its bandwidth at large messages.

Stricter than the judge of a pasted log: here it is known which nodes ran and that they are one NVLink domain, so
what the log does not show is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.checks.nccl_bandwidth import lowest, size
from ndctl.checks.nccl_complaints import complaint_findings
from ndctl.jobs.isolation import GroupVerdict
from ndctl.jobs.nccl import NcclLaunch, NcclRun
from ndctl.model.answers import CommandResult
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nccl_rows import Row
from ndctl.parse.nccl_tests import NcclTests, parse
from ndctl.profiles.schema import BandwidthFloor, Profile

_TRANSPORT_SOURCE = "the NCCL log of this run"
# Complaints that are no fault by themselves, but are when ranks had started: somebody was lost on the way.
_LOST_ON_THE_WAY = ("nccl.launch", "nccl.aborted", "nccl.crash")
_TIMEOUT_CODES = (124, 137)  # of `timeout`; 137 is also a rank that somebody killed
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
        return [_unknown(check, "no-result", subject, f"not run: {run.problem}", evidence)]
    facts = parse(run.log.stdout, run.log.stderr)
    if _ran_out_of_time(run.launch, run.log):
        return [_hang(check, subject, facts, run.launch, evidence)]
    if not facts.rows:
        return [_without_rows(check, subject, facts, run.launch, run.log, evidence)]
    findings = [
        *_ranks(check, subject, facts, run.launch, evidence),
        *_correctness(check, subject, facts, evidence),
        *_transport(check, subject, facts, run.launch, profile, evidence, scope),
        *_bandwidth(check, subject, facts, run.launch, profile, evidence, scope),
    ]
    if run.log.exit_code and not any(f.check == f"{check}.wrong" for f in findings):
        findings = [f for f in findings if f.status is not Status.PASS]
        findings.append(_without_rows(check, subject, facts, run.launch, run.log, evidence))
    elif not facts.complete:
        findings = [f for f in findings if f.status is not Status.PASS]
        findings.append(_unknown(check, "cut", subject, "the output ends before the tool's closing lines", evidence))
    return findings


def verdict(findings: Sequence[Finding]) -> GroupVerdict | None:
    """What a group's run says for the isolation; None when nothing was measured, or not what was asked for."""
    if any(f.check.endswith(".ranks") for f in findings):
        return None
    bad = [f for f in findings if f.status in (Status.FAIL, Status.WARN)]
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


def _ran_out_of_time(launch: NcclLaunch, log: CommandResult) -> bool:
    if log.timed_out:
        return True
    # A node without a clock gives no seconds; then `timeout` is taken at its word.
    long_enough = log.seconds >= launch.deadline_s - 0.5 or (log.seconds == 0 and log.exit_code == _TIMEOUT_CODES[0])
    return log.exit_code in _TIMEOUT_CODES and long_enough


def _unknown(check: str, kind: str, subject: str, message: str, evidence: str) -> Finding:
    return Finding(
        check=f"{check}.{kind}",
        status=Status.UNKNOWN,
        subject=subject,
        message=message,
        action=Action.INVESTIGATE,
        evidence=evidence,
    )


def _hang(check: str, subject: str, facts: NcclTests, launch: NcclLaunch, evidence: str) -> Finding:
    reached = f" after {size(max(row.bytes for row in facts.rows))}" if facts.rows else " before the first result"
    return Finding(
        check=f"{check}.hang",
        status=Status.FAIL,
        subject=subject,
        value=launch.deadline_s,
        unit="s",
        expected=f"an end within {launch.deadline_s:.0f} s",
        source="the launch",
        message=f"no end within {launch.deadline_s:.0f} s: the collective hangs{reached}",
        cause="a rank that never joined or a path that drops traffic; see the last line of each rank",
        action=Action.INVESTIGATE,
        evidence=evidence,
    )


def _without_rows(
    check: str, subject: str, facts: NcclTests, launch: NcclLaunch, log: CommandResult, evidence: str
) -> Finding:
    """A run that ended without its results, or amid them: a fault once ranks had started, else nothing was measured."""
    complaints = complaint_findings([*facts.errors, *facts.warnings])
    worst = next((c for c in complaints if c.status is Status.FAIL), next(iter(complaints), None))
    started = facts.ranks is not None or bool(facts.rows)
    fault = worst is not None and (worst.status is Status.FAIL or (started and worst.check in _LOST_ON_THE_WAY))
    fault = fault or (worst is None and started and bool(log.exit_code))
    message = worst.message if worst else next(iter(facts.errors), "") or "it printed no result"
    if facts.rows:
        message = f"it ended after {size(max(row.bytes for row in facts.rows))}: {message}"
    missing = log.exit_code == 127
    return Finding(
        check=f"{check}.error" if fault else f"{check}.no-result",
        status=Status.FAIL if fault else Status.UNKNOWN,
        subject=subject,
        value=log.exit_code,
        unit="exit code",
        message=message[:300] + _names_in(facts.errors, launch),
        cause="mpirun or the test program is not on the image"
        if missing
        else (worst.cause if worst and worst.cause else "a rank ended" if fault else "the launch did not reach NCCL"),
        action=Action.FIX_IMAGE if missing or (worst and worst.action is Action.FIX_IMAGE) else Action.INVESTIGATE,
        evidence=evidence,
    )


def _names_in(lines: Sequence[str], launch: NcclLaunch) -> str:
    """Launchers speak of addresses; people know names."""
    words = {word.strip("[](),:'\"") for line in lines for word in line.split()}
    named = [node.name for node in launch.nodes if node.address in words]
    return f" ({', '.join(named[:4])})" if named else ""


def _ranks(check: str, subject: str, facts: NcclTests, launch: NcclLaunch, evidence: str) -> list[Finding]:
    wanted = len(launch.nodes) * launch.gpus_per_node
    if facts.ranks == wanted and facts.communicators == 1:
        return []
    if facts.ranks is None:
        return [_unknown(check, "ranks", subject, f"the output does not show that {wanted} ranks took part", evidence)]
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
        return [_unknown(check, "correctness", subject, text, evidence)]
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
        return [_unknown(check, "transport", subject, text, evidence)]
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


def _bandwidth(
    check: str, subject: str, facts: NcclTests, launch: NcclLaunch, profile: Profile, evidence: str, scope: str
) -> list[Finding]:
    floor = profile.floor(launch.test, scope, len(launch.nodes))
    if floor is None:
        text = f"profile {profile.name} has no floor for {launch.test} over {len(launch.nodes)} nodes ({scope})"
        return [Finding(check=check, status=Status.SKIP, subject=subject, message=text, evidence=evidence)]
    measured = busbw_at_large(facts, floor)
    if measured is None:
        return [_unknown(check, "no-result", subject, f"no figure at {size(floor.min_bytes)} or more", evidence)]
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
