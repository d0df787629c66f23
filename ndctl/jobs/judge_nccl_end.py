"""A NCCL run that did not come to its end: a hang, an error, or a launch that never got as far as NCCL."""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.checks.nccl_bandwidth import size
from ndctl.checks.nccl_complaints import complaint_findings
from ndctl.jobs.nccl import NcclLaunch
from ndctl.model.answers import CommandResult
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nccl_tests import NcclTests

# Complaints that are no fault by themselves, but are when ranks had started: somebody was lost on the way.
_LOST_ON_THE_WAY = ("nccl.launch", "nccl.aborted", "nccl.crash")
_TIMEOUT_CODES = (124, 137)  # of `timeout`; 137 is also a rank that somebody killed


def ran_out_of_time(launch: NcclLaunch, log: CommandResult) -> bool:
    if log.timed_out:
        return True
    # A node without a clock gives no seconds; then `timeout` is taken at its word.
    long_enough = log.seconds >= launch.deadline_s - 0.5 or (log.seconds == 0 and log.exit_code == _TIMEOUT_CODES[0])
    return log.exit_code in _TIMEOUT_CODES and long_enough


def unknown(check: str, kind: str, subject: str, message: str, evidence: str) -> Finding:
    return Finding(
        check=f"{check}.{kind}",
        status=Status.UNKNOWN,
        subject=subject,
        message=message,
        action=Action.INVESTIGATE,
        evidence=evidence,
    )


def hang(check: str, subject: str, facts: NcclTests, launch: NcclLaunch, evidence: str) -> Finding:
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


def ended_early(
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
