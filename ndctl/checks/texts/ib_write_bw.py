"""What a perftest bandwidth output means; with a profile, whether the port carries its rate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import accumulate

from ndctl.checks.perftest_complaints import complaint_findings
from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ib_bw import BandwidthRow, PerftestBandwidth, parse
from ndctl.profiles.schema import Profile

# Messages at least this large fill a link; smaller ones measure the rate of messages.
LARGE_BYTES = 65536
_FALLING = 0.7  # a later interval this much slower than the best before it


def judge(facts: PerftestBandwidth, profile: Profile | None = None) -> list[Finding]:
    """Findings about one output; with a profile also against the port's rate."""
    measured = [row for row in facts.rows if row.bw_average is not None]
    findings = complaint_findings(facts.errors, bool(measured))
    if not measured:
        if not findings:
            why = "it ends before the results" if facts.test or facts.device else "no result table"
            findings.append(_say("infiniband.no-result", Status.UNKNOWN, f"no measured row in this text: {why}"))
        return findings
    return [
        _say("infiniband.measured", Status.PASS, _summary(facts, measured)),
        *findings,
        *_doubts(facts, measured),
        *(_against(facts, measured, profile) if profile else ()),
    ]


def best_row(rows: list[BandwidthRow]) -> BandwidthRow:
    """The row that tells of the link: the fastest large one, else the largest."""
    large = [row for row in rows if row.bytes >= LARGE_BYTES]
    return max(large, key=lambda row: row.bw_average or 0) if large else max(rows, key=lambda row: row.bytes)


def _summary(facts: PerftestBandwidth, rows: list[BandwidthRow]) -> str:
    row = best_row(rows)
    rate = f"{row.bw_average:g} {facts.unit or '(unit not told)'}"
    if row.bw_average_gbps is not None and "Gb" not in (facts.unit or ""):
        rate += f" = {row.bw_average_gbps:.1f} Gb/s"
    both = f", both directions together ({(row.bw_average or 0) / 2:g} each)" if facts.bidirectional else ""
    return f"{facts.test or 'bandwidth test'} on {facts.device or 'a device not shown'}: {rate} at {row.bytes} B{both}"


def _doubts(facts: PerftestBandwidth, rows: list[BandwidthRow]) -> Iterator[Finding]:
    if facts.samples:
        samples = [row.bw_average or 0.0 for row in rows if row.sample]
        falls = any(later < _FALLING * best for later, best in zip(samples[1:], accumulate(samples, max), strict=False))
        yield _say(
            "infiniband.samples",
            Status.WARN,
            f"{facts.samples} interval samples of an endless run, {min(samples):g} to {max(samples):g}: no final result"
            f"{'; the bandwidth falls during the run' if falls else ''}",
        )
    if not facts.complete or facts.torn_rows:
        yield _say("infiniband.cut", Status.WARN, "the closing line is missing: rows or errors may have followed")
    if all(row.bytes < LARGE_BYTES for row in rows):
        yield _say(
            "infiniband.small",
            Status.WARN,
            f"only messages up to {max(row.bytes for row in rows)} B: this says nothing about the link's bandwidth",
        )
    elif (best_row(rows).bw_average or 0) <= 0:
        yield _say("infiniband.zero", Status.FAIL, "no data was moved: the average is 0", action=Action.INVESTIGATE)
    if facts.frequency_warnings:
        yield _say(
            "infiniband.cpu-frequency",
            Status.WARN,
            "the CPU's frequency changed or is not at its maximum: figures may be off by as much",
            cause="CPU power saving; a warning of the tool, no fault of the link",
        )
    if (
        (facts.link_type or "").upper() == "IB"
        and facts.lids
        and all(lid in ("0000", "0x00", "0") for lid in facts.lids)
    ):
        yield _say(
            "infiniband.link-layer",
            Status.WARN,
            "link type says IB, but LID 0000 is no InfiniBand address: an Ethernet port forced to be called IB",
        )


def _against(facts: PerftestBandwidth, rows: list[BandwidthRow], profile: Profile) -> Iterator[Finding]:
    ports = profile.infiniband
    device = facts.device or ""
    if any(fnmatchcase(device, pattern) for pattern in ports.ignore_devices.value):
        yield _say(
            "infiniband.device",
            Status.UNKNOWN,
            f"{device} is not one of the InfiniBand ports but accelerated networking",
        )
        return
    if (facts.link_type or "").lower() == "ethernet":
        yield _say("infiniband.device", Status.UNKNOWN, f"{device or 'the device'} is an Ethernet port, not InfiniBand")
        return
    large = [row for row in rows if row.bytes >= LARGE_BYTES]
    if not large:
        return
    row = best_row(large)
    if row.bw_average_gbps is None:
        yield _say("infiniband.bandwidth", Status.UNKNOWN, "the unit of the figures is not told, so no floor fits")
        return
    measured = row.bw_average_gbps / (2 if facts.bidirectional else 1)
    floor = ports.rate_gbps.value * ports.write_bw_fraction.value
    low = measured < floor
    yield _say(
        "infiniband.bandwidth",
        Status.FAIL if low else Status.PASS,
        f"{measured:.1f} Gb/s one way at {row.bytes} B is {'below the floor' if low else 'as expected'}",
        value=round(measured, 2),
        unit="Gb/s",
        expected=f"at least {floor:g} Gb/s ({ports.write_bw_fraction.value:g} of {ports.rate_gbps.value:g})",
        source=f"{ports.rate_gbps.origin}; fraction: {ports.write_bw_fraction.origin}",
        cause="a port at a lower rate, a bad cable, or a test that was not tuned (size, queue pairs)" if low else "",
        action=Action.INVESTIGATE if low else Action.NONE,
    )


def looks_like(text: str) -> float:
    if re.search(r"BW average\s?\[|BW_average", text):
        return 0.97
    if re.search(r"(?:RDMA_\w+|Send) (?:Bidirectional |Post List )?BW Test", text):
        return 0.9
    if ("Failed status" in text and "syndrom" in text) or "Unable to init the socket connection" in text:
        return 0.7
    return (
        0.6 if re.search(r"Port number \d+ state is|Couldn't get context for the device|RDMA CM event", text) else 0.0
    )


def _say(
    check: str,
    status: Status,
    message: str,
    *,
    value: float | None = None,
    unit: str = "",
    expected: str = "",
    source: str = "",
    cause: str = "",
    action: Action = Action.NONE,
) -> Finding:
    return Finding(
        check=check, status=status, subject="port", message=message, value=value, unit=unit, expected=expected,
        source=source, cause=cause, action=action,
    )  # fmt: skip


JUDGE = TextJudge(
    tool="ib-write-bw",
    title="perftest bandwidth: ib_write_bw, ib_read_bw, ib_send_bw, text or --out_json",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("ib-read-bw", "ib-send-bw", "ib-atomic-bw", "perftest"),
)
