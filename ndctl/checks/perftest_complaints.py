"""What the error lines of perftest mean: a fault of port or path, or only that nothing was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ib_verbs import LIKELY, WC_STATUS, describe

_STATUS = re.compile(r"Failed status[ -]{1,3}(?:[^(]{0,60}\()?(\d{1,3})\)?|got completion with error:?\s*(\d{1,3})?")

# First match wins: pattern, check, status, meaning, likely cause.
_MEANINGS: tuple[tuple[re.Pattern[str], str, Status, str, str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), f"infiniband.{check}", status, meaning, cause)
    for pattern, check, status, meaning, cause in (
        (r"state is (?!Active)\w+", "port-down", Status.FAIL, "the port is not active",
         "port, cable or switch; or not the device that was meant (no -d given)"),
        (r"Couldn't connect to|init the socket connection|set up socket|socket connection|Connection refused"
         r"|No route to|Connection timed out", "rendezvous", Status.UNKNOWN,
         "the two sides did not find each other over TCP: nothing was measured",
         "server not started, wrong address, or a firewall (port 18515); says nothing about the link"),
        (r"below (?:bw|msg_rate) limit|Msg rate +is below", "below-limit", Status.FAIL,
         "the result is below the limit the test was given", "the link or its settings"),
        (r"No IB devices|Did not detect devices", "no-device", Status.FAIL, "no InfiniBand device was found",
         "mlx5 driver not loaded or devices missing: lspci, ibv_devinfo"),
        (r"IB device .{0,40} not found|find the Infiniband", "no-device", Status.UNKNOWN,
         "the device asked for was not found: nothing was measured", "the name given with -d"),
        (r"allocate MR|create mr|register MR|MR with error|peermem|DMA-?BUF", "memory-registration", Status.UNKNOWN,
         "memory could not be registered: nothing was measured",
         "GPU memory without nvidia-peermem or DMA-BUF, or a locked-memory limit"),
        (r"modify QP .{0,20}to RTR|Connect the HCA's through the link", "no-path", Status.FAIL,
         "the queue pairs could not be connected",
         "link layer, MTU, GID or partition differ between the sides, or no path"),
        (r"mtu is higher", "mtu", Status.UNKNOWN, "the MTU asked for is above the port's: nothing was measured", "-m"),
        (r"Completion with error|got completion with error|run_iter", "completion", Status.FAIL,
         "the test broke off with a completion error", "the path between the two ports"),
        (r"data check failed", "data", Status.FAIL, "data arrived changed", "link or memory"),
        (r"Segmentation fault|Bus error", "crash", Status.UNKNOWN, "the test crashed: nothing was measured", ""),
        (r".", "failure", Status.UNKNOWN, "the test failed: nothing was measured", ""),
    )
)  # fmt: skip


def complaint_findings(errors: Iterable[str], measured: bool) -> list[Finding]:
    """Findings of the error lines, the telling one first; `measured`: there are results beside them."""
    findings: dict[str, Finding] = {}
    for line in errors:
        status = _STATUS.search(line)
        if status and (status[1] or status[2]):
            number = int(status[1] or status[2])
            findings["infiniband.completion"] = _finding(
                "infiniband.completion",
                Status.FAIL,
                f"completion error: {describe(number)}" if number in WC_STATUS else f"completion error {number}",
                line,
                LIKELY.get(number, "the path between the two ports"),
            )
            continue
        _, check, verdict, meaning, cause = next(one for one in _MEANINGS if one[0].search(line))
        if measured and verdict is Status.UNKNOWN:
            verdict, meaning = Status.WARN, "the test complains"
        findings.setdefault(check, _finding(check, verdict, meaning, line, cause))
    if len(findings) > 1:
        findings.pop("infiniband.failure", None)  # "failed" only closes what another line explains
    return list(findings.values())


def _finding(check: str, status: Status, meaning: str, line: str, cause: str) -> Finding:
    action = Action.INVESTIGATE if status is Status.FAIL else Action.NONE
    return Finding(
        check=check, status=status, subject="test", message=f"{meaning}: {line[:200]}", cause=cause, action=action
    )
