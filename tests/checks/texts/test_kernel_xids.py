"""XIDs: their tiers, NVLink 5 decode, and who is to blame."""

from __future__ import annotations

import pytest

from ndctl.checks.judge import judge_text
from ndctl.checks.texts import xids
from ndctl.model.status import Action, Status
from ndctl.parse.kernel_log import parse

_NUMBERS_OF_THE_GUIDE = [
    *(8, 11, 13, 25, 31, 32, 37, 38, *range(39, 42), 43, 44, 45, 46, 48, 54, 60, 62, 63, 64, 66, 67, *range(68, 73)),
    *(74, 75, 76, 77, 78, 79, 80, *range(82, 87), 88, 89, *range(92, 108), 109, 110, 119, 120, 121, *range(126, 138)),
    *(139, 140, 141, 142, *range(143, 173)),
]


def line(xid: int, text: str = "pid=1, name=x", pci: str = "0008:01:00", at: float = 100.0) -> str:
    return f"[{at:12.6f}] NVRM: Xid (PCI:{pci}): {xid}, {text}\n"


def link_event(
    reason: int, link: int = 8, low: int = 0x1C6, severity: str = "Fatal", unit: str = "NETIR_LINK_EVT"
) -> str:
    return f"{unit}  {severity}   XC0 i0 Link {link:02} (0x{reason << 20 | low:08x} 0x00000000 0x00000000)"


def test_every_number_of_the_catalogue_has_a_meaning() -> None:
    assert [number for number in _NUMBERS_OF_THE_GUIDE if number not in xids.XIDS] == []


@pytest.mark.parametrize("xid", [13, 31, 32, 43, 45, 68, 94, 105, 130])
def test_an_applications_error_is_no_fault(xid: int) -> None:
    assert judge_text("kernel-log", line(xid)).status is Status.WARN


@pytest.mark.parametrize("xid", [46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 158, 165, 167])
def test_hardwares_error_is_a_fault(xid: int) -> None:
    judgement = judge_text("kernel-log", line(xid))
    assert judgement.status is Status.FAIL
    assert judgement.findings[0].source == xids.SOURCE


@pytest.mark.parametrize("xid", [37, 44, 66, 106, 137, 141, 152])
def test_an_informational_one_passes(xid: int) -> None:
    assert judge_text("kernel-log", line(xid)).status is Status.PASS


def test_an_unknown_number_warns() -> None:
    finding = judge_text("kernel-log", line(999)).findings[0]
    assert (finding.status, finding.action) == (Status.WARN, Action.INVESTIGATE)


@pytest.mark.parametrize(
    ("reason", "words"),
    [(4, "signal integrity"), (43, "cables"), (21, "the peer"), (33, "the peer"), (40, "the host"), (15, "software")],
)
@pytest.mark.parametrize("low", [0x1C6, 0x11])
def test_a_link_downs_reason_is_read_in_both_forms(reason: int, words: str, low: int) -> None:
    event = parse(line(149, link_event(reason, low=low))).xids[0]
    assert event.nvlink is not None
    assert (event.nvlink.reason, event.nvlink.link, event.nvlink.severity) == (reason, 8, "fatal")
    finding = judge_text("kernel-log", line(149, link_event(reason, low=low))).findings[0]
    assert finding.subject == "GPU 0008:01:00 link 8"
    assert words in finding.cause


def test_a_bit_error_event_is_an_early_sign_only() -> None:
    text = line(149, link_event(0, low=0x226, severity="Nonfatal", unit="NETIR_BER_EVENT"))
    finding = judge_text("kernel-log", text).findings[0]
    assert (finding.status, finding.action) == (Status.WARN, Action.WATCH)
    assert "early sign" in finding.cause


def test_an_injected_event_is_a_test() -> None:
    text = line(149, link_event(4).replace(" i0 ", " i1 "))
    assert judge_text("kernel-log", text).status is Status.WARN


def test_one_link_explains_sixty_three_sympathetic_events() -> None:
    text = line(149, link_event(4), pci="0008:01:00", at=1000.0)
    for gpu in range(63):
        pci = f"00{gpu + 16:02x}:01:00"
        text += line(145, link_event(0, -1, 0x82, "Nonfatal", "RLW_REMAP"), pci=pci, at=1001.0 + gpu / 100)
        text += line(45, "pid=99, name=python, Ch 00000002", pci=pci, at=1002.0)
    findings = judge_text("kernel-log", text).findings
    roots = [finding for finding in findings if not finding.caused_by]
    assert [root.check for root in roots] == ["kernel.xid-149"]
    assert len(roots[0].explains) == 126


def test_what_came_hours_later_is_not_explained() -> None:
    text = line(149, link_event(4), at=1000.0) + line(45, pci="0018:01:00", at=9000.0)
    findings = judge_text("kernel-log", text).findings
    assert {finding.check for finding in findings if not finding.caused_by} == {"kernel.xid-149", "kernel.xid-45"}


def test_a_gpu_off_the_bus_explains_the_rest_of_its_own_events_only() -> None:
    text = (
        line(79, "GPU has fallen off the bus.")
        + line(119)
        + line(154, "(GPU Reset Required)")
        + line(62, pci="0018:01:00")
    )
    findings = judge_text("kernel-log", text).findings
    roots = {(f.check, f.subject) for f in findings if not f.caused_by}
    assert roots == {("kernel.xid-79", "GPU 0008:01:00"), ("kernel.xid-62", "GPU 0018:01:00")}


@pytest.mark.parametrize(
    ("words", "status", "action"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", Status.FAIL, Action.REBOOT),
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", Status.FAIL, Action.RESET_GPU),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", Status.WARN, Action.WATCH),
        ("GPU recovery action changed from 0x0 (None) to 0x9 (Sing)", Status.FAIL, Action.INVESTIGATE),
    ],
)
def test_the_drivers_own_word_is_taken(words: str, status: Status, action: Action) -> None:
    finding = judge_text("kernel-log", line(154, words)).findings[0]
    assert (finding.status, finding.action) == (status, action)


@pytest.mark.parametrize(
    ("dress", "time"),
    [
        ("[  885.242168] {}", "885.242168"),
        ("[Sun Feb 23 16:24:18 2025] {}", "Sun Feb 23 16:24:18 2025"),
        ("Dec  2 11:49:53 node04 kernel: [  885.242168] {}", "Dec  2 11:49:53"),
        ("2026-12-02T03:12:09.123456+0000 rack01-n03 kernel: {}", "2026-12-02T03:12:09.123456+0000"),
        ("2025-01-21T04:41:44,285060+00:00 {}", "2025-01-21T04:41:44,285060+00:00"),
        ("kern  :err   : [  885.242168] {}", "885.242168"),
        ("<3>[  885.242168] {}", "885.242168"),
        ("3,3964,206764307,-;{}", "206764307"),
        ("    > [  885.242168] {}", "885.242168"),
        ('{{"MESSAGE": "{}", "__REALTIME_TIMESTAMP": "1733108000000000"}}', "1733108000000000"),
        ("{}", ""),
    ],
)
def test_every_dress_of_a_line(dress: str, time: str) -> None:
    text = dress.format("NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off the bus.")
    (event,) = parse(text).xids
    assert (event.xid, event.pci, event.time, event.pid) == (79, "0000:9b:00", time, "1234")
    assert parse(text).fell_off_bus == ("0000:9b:00",)


def test_the_same_line_twice_is_one_event() -> None:
    assert len(parse(line(79) * 2).xids) == 1
    assert len(parse(line(79) + line(79, at=101.0)).xids) == 2


def test_a_mig_instance_is_named_beside_its_gpu() -> None:
    (event,) = parse("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 31, pid=7, name=x, Ch 1\n").xids
    assert (event.xid, event.pci) == (31, "0000:01:00")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("[  1.0] mlx5_core 0101:00:00.0 ib0: Link down\n", Status.WARN),
        ("".join(f"[  {t}.0] mlx5_core 0101:00:00.0 ib0: Link down\n" for t in (100, 200, 300)), Status.FAIL),
        ("".join(f"[{t}.0] mlx5_core 0101:00:00.0 ib0: Link down\n" for t in (100, 20000, 90000)), Status.WARN),
        ("".join(f"[  {t}.0] eth0: Lost carrier\n" for t in (100, 200, 300)), Status.WARN),
        ("[  1.0] calib317e2eeb40: Lost carrier\n[  2.0] veth12ab: Lost carrier\n", Status.PASS),
        ("[  0.0] Linux version 6.17\n[ 9.0] mlx5_core 0101:00:00.0 ib0: Link down\n", Status.PASS),
    ],
)
def test_flaps_count_where_they_repeat_on_a_rail(text: str, status: Status) -> None:
    assert judge_text("kernel-log", text).status is status


@pytest.mark.parametrize(
    ("text", "status", "check"),
    [
        (
            "mlx5_core 0101:00:00.0: poll_health:800: device's health compromised - reached miss count",
            "fail",
            "mlx5-health",
        ),
        (
            "pcieport 0000:00:03.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
            "fail",
            "pcie-fatal",
        ),
        ("EDAC MC0: 3 CE memory read error on CPU_SrcID#0", "warn", "memory-corrected"),
        ("INFO: task nvidia-smi:4242 blocked for more than 120 seconds.", "warn", "hung-task"),
        ("Out of memory: Killed process 4242 (python3) total-vm:1kB", "warn", "out-of-memory"),
        ("Kernel panic - not syncing: Fatal exception", "fail", "panic"),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 23s!", "fail", "lockup"),
        ("EXT4-fs (nvme0n1p1): Remounting filesystem read-only", "fail", "read-only"),
        ("NVRM: API mismatch: the client has the version 580.1, but", "fail", "driver-api-mismatch"),
        ("NVRM: GPU 0000:05:00.0: GPU has fallen off the bus.", "fail", "fell-off-bus"),
        ("_fabricNotifyEvent: Unable to notify ImexSessionApi", "warn", "imex-session"),
    ],
)
def test_other_signs(text: str, status: str, check: str) -> None:
    judgement = judge_text("kernel-log", f"[  885.242168] {text}\n")
    assert judgement.status.value == status
    assert judgement.findings[0].check == f"kernel.{check}"
