"""What a kernel log means: XIDs first, then links, then the host."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.kernel_events import event_findings
from ndctl.checks.texts.kernel_xids import xid_findings
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.kernel_log import KernelLog, LinkFlap, SxidEvent, parse
from ndctl.profiles.schema import Profile

_FLAPS_SOON, _SOON_SECONDS = 3, 10_800.0  # Azure cyclecloud-healthagent: 3 link downs in 3 hours
_FLAPS_EVER = 5  # Azure HPC node health checks: 5 in a day
_BOOT_SECONDS = 300.0
_RAIL = re.compile(r"^(?:mlx5_ib|ib|mlx5_\d)|^[0-9a-f]{4,8}:", re.IGNORECASE)


def judge(facts: KernelLog, profile: Profile | None) -> Sequence[Finding]:
    findings = [
        *xid_findings(facts.xids),
        *_fallen(facts),
        *_sxids(facts.sxids),
        *_flaps(facts),
        *event_findings(facts.events, facts.pstore),
    ]
    if any(f.status is not Status.PASS for f in findings):
        return findings
    if facts.shaped < 1 and not findings:
        said = f": “{facts.problems[0]}”" if facts.problems else ""
        message = f"no line of this text is a kernel log's{said}"
        return [Finding(check="kernel.none", status=Status.UNKNOWN, subject="text", message=message)]
    return [
        *findings,
        Finding(
            check="kernel.log",
            status=Status.PASS,
            subject="kernel log",
            value=facts.lines,
            unit="lines",
            message=f"{facts.lines} lines read, no fault among them",
        ),
    ]


def _fallen(facts: KernelLog) -> list[Finding]:
    """GPUs said to have fallen off the bus without an XID 79 of their own."""
    with_xid = {event.pci for event in facts.xids if event.xid == 79}
    return [
        Finding(
            check="kernel.fell-off-bus",
            status=Status.FAIL,
            subject=f"GPU {pci or '(not named)'}",
            message="the GPU has fallen off the bus",
            cause="PCIe link, power or the GPU itself",
            action=Action.REPLACE_AND_REPORT,
            health_category="Resource.Hpc.Unhealthy.XID79FallenOffBus",
        )
        for pci in facts.fell_off_bus
        if pci not in with_xid
    ]


def _sxids(events: Sequence[SxidEvent]) -> list[Finding]:
    groups: dict[tuple[str, int], list[SxidEvent]] = {}
    for event in events:
        groups.setdefault((event.text if not event.pci else "", event.sxid), []).append(event)
    findings = []
    for (_, number), found in groups.items():
        said = [event for event in found if event.severity]
        fatal = any(event.severity == "fatal" for event in said)
        first = said[0] if said else found[0]
        links = sorted({event.link for event in found if event.link is not None})
        where = f" link {', '.join(str(link) for link in links)}" if links else ""
        findings.append(
            Finding(
                check=f"kernel.sxid-{number}",
                status=Status.FAIL if fatal else Status.WARN,
                subject=f"NVSwitch {first.pci}{where}",
                value=number,
                unit="SXID",
                message=f"SXID {number}: {first.text[:120]}",
                cause="NVSwitch or the link to it",
                action=Action.INVESTIGATE if fatal else Action.WATCH,
                health_category="Resource.Hpc.Unhealthy.NvLink" if fatal else "",
            )
        )
    return findings


def _flaps(facts: KernelLog) -> list[Finding]:
    devices: dict[str, list[LinkFlap]] = {}
    for flap in facts.link_flaps:
        devices.setdefault(flap.device, []).append(flap)
    findings = []
    for device, flaps in devices.items():
        if len(flaps) == 1 and _at_boot(flaps[0], facts.booted):
            continue
        rail = bool(_RAIL.match(device))
        often = rail and (len(flaps) >= _FLAPS_EVER or _dense(flaps))
        when = f", first at {flaps[0].time}" if flaps[0].time else ""
        findings.append(
            Finding(
                check="kernel.link-flap",
                status=Status.FAIL if often else Status.WARN,
                subject=device,
                value=len(flaps),
                unit="times down",
                expected=f"under {_FLAPS_SOON} in 3 hours, under {_FLAPS_EVER} in all",
                source="Azure cyclecloud-healthagent and HPC node health checks, 2026-12-02",
                message=f"the link of {device} went down{f' {len(flaps)} times' if len(flaps) > 1 else ''}{when}",
                cause="cable, transceiver or switch port; or someone took it down",
                action=Action.INVESTIGATE if often else Action.WATCH,
                health_category="Resource.Hpc.Unhealthy.IBPortFlapping" if often else "",
            )
        )
    return findings


def _at_boot(flap: LinkFlap, booted: float | None) -> bool:
    """Links go down and up once while the driver starts."""
    return booted is not None and flap.seconds is not None and 0 <= flap.seconds - booted < _BOOT_SECONDS


def _dense(flaps: Sequence[LinkFlap]) -> bool:
    times = sorted(flap.seconds for flap in flaps if flap.seconds is not None)
    window = _FLAPS_SOON - 1
    return any(times[i + window] - times[i] <= _SOON_SECONDS for i in range(len(times) - window))


def looks_like(text: str) -> float:
    """Driver messages of the kernel, or lines in its dress."""
    if re.search(r"NVRM: |SXid|nvidia-nvswitch\d|mlx5_core [0-9a-f]{4}:", text):
        return 0.9
    if re.search(r"^\d,\d+,\d+,-;|^(?:<\d{1,3}>)?\[\s*\d+\.\d{6}\] |\bkernel: |^kern\s*:", text, re.MULTILINE):
        return 0.8
    return 0.5 if re.search(r"systemd-networkd\[\d+\]: \S+: [Ll]ost carrier", text) else 0.0


JUDGE = TextJudge(
    tool="kernel-log",
    title="kernel log (dmesg, journalctl -k, syslog, /dev/kmsg): XIDs, SXIDs, link flaps, host faults",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("dmesg", "journal", "syslog", "kmsg"),
)
