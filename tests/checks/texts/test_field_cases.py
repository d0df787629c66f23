"""Each captured output is judged as a careful reader would, for that reader's reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ndctl.checks.judge import judge_text
from ndctl.model.findings import Judgement
from ndctl.model.status import Status

CAPTURES = Path(__file__).parent.parent.parent / "captures"
PASS, WARN, FAIL, UNKNOWN = Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN


@dataclass(frozen=True)
class Owed:
    """reason: words of one finding of that status, its message or its cause; subject: a part it names."""

    tool: str
    name: str
    status: Status
    reason: str
    subject: str = ""


OWED = (
    Owed("nvidia-smi-q", "01", FAIL, "memory pages wait to be retired", "00000002:00:00.0"),
    Owed("nvidia-smi-q", "01", FAIL, "65 retired pages (60 single bit, 5 double bit)", "00000001:00:00.0"),
    Owed("nvidia-smi-q", "02", PASS, "page retirement of 8 GPUs"),
    Owed("nvidia-smi-q", "05", FAIL, "a row remap is pending (1 correctable", "00000000:10:1C.0"),
    Owed("nvidia-smi-q", "09", FAIL, "completed with 'Insufficient Resources'"),
    Owed("nvidia-smi-q", "18", UNKNOWN, "nothing in this text tells whether the GPUs are healthy"),
    Owed("nvidia-smi-xml", "23", PASS, "temperature of 1 GPUs"),
    Owed("nvidia-smi-xml", "40", PASS, "ECC counts"),
    Owed("nvidia-smi", "06", WARN, "the text ends too early"),
    Owed("nvidia-smi", "14", FAIL, "the driver has lost this GPU", "0000:0b:00.0"),
    Owed("nvidia-smi", "17", PASS, "8 GPUs"),
    Owed("nvidia-smi", "19", WARN, "power: ERR!", "00008ED0:00:00.0"),
    Owed("nvidia-smi", "20", WARN, "the text ends too early"),
    Owed("nvidia-smi", "22", FAIL, "3 fields cannot be read"),
    Owed("nvidia-smi", "24", FAIL, "the driver does not answer", "NVIDIA driver"),
    Owed("nvlink-status", "03", PASS, "96 NVLinks of 8 GPUs active at 25 GB/s"),
    Owed("nvlink-status", "11", WARN, "only 2 of 18 links are in the text", "GPU 1"),
    Owed("nvlink-status", "13", PASS, "18 NVLinks of 1 GPUs active at 26.562 GB/s"),
    Owed("nvlink-status", "25", FAIL, "all NVLinks of NVIDIA B200 are inactive", "GPU 2"),
    Owed("topo", "07", PASS, "28 × NV18"),
    Owed("topo", "08", PASS, "no NVLink between them"),
    Owed("topo", "16", PASS, "12 × SYS"),
    Owed("imex", "01", PASS, "18 nodes READY and connected"),
    Owed("imex", "02", FAIL, "domain state DEGRADED"),
    Owed("imex", "02", FAIL, "never connected as seen from 3 of 3 nodes", "IMEX node 17"),
    Owed("imex-log", "03", UNKNOWN, "start-up, no result yet"),
    Owed("imex-log", "04", FAIL, "driver 570.124.6 is older than the 570.158.1"),
    Owed("ibstat", "01", FAIL, "Polling (its rate and LID are left-overs of a dead port)", "mlx5_10 port 1"),
    Owed("ibstat", "02", WARN, "not one of the InfiniBand rails", "mlx5_8 port 1"),
    Owed("ibstat", "14", PASS, "1 InfiniBand ports Active at 400 Gb/s"),
    Owed("ibstat", "16", PASS, "2 Ethernet ports up"),
    Owed("ibstatus", "13", PASS, "Ethernet ports up; no InfiniBand port among them"),
    Owed("ibv-devinfo", "07", PASS, "8 InfiniBand ports Active; 1 Ethernet or ignored beside them"),
    Owed("ibv-devinfo", "15", FAIL, "Down", "mlx5_0 port 1"),
    Owed("rdma-link", "08", WARN, "not one of the InfiniBand rails", "mlx5_9 port 1"),
    Owed("iblinkinfo", "04", PASS, "8 links Active"),
    Owed("ibqueryerrors", "09", UNKNOWN, "query failed on HOSTXXX"),
    Owed("mlxlink", "10", PASS, "25GbE 1x"),
    Owed("mlxlink", "11", PASS, "IB-EDR 4x"),
    Owed("kernel-log", "01", FAIL, "XID 119: the GPU system processor (GSP) does not answer", "0000:9b:00"),
    Owed("kernel-log", "02", WARN, "software, no hardware fault", "pt_main_thread"),
    Owed("kernel-log", "03", PASS, "no fault among them"),
    Owed("kernel-log", "04", WARN, "harmless when a process ends (7 lines)"),
    Owed("kernel-log", "06", FAIL, "the switch tray or plane, not these GPUs", "0009:01:00 link 0, 1, 15"),
    Owed("kernel-log", "07", FAIL, "picture of the NVLink fabric is out of date"),
    Owed("kernel-log", "08", FAIL, "XID 79: GPU has fallen off the bus", "0000:05:00"),
    Owed("kernel-log", "09", FAIL, "XID 48: double-bit ECC error", "000d:00:00"),
    Owed("kernel-log", "10", WARN, "the link of ib1 went down", "ib1"),
    Owed("kernel-log", "11", FAIL, "an uncorrected error in host memory", "MC3"),
    Owed("kernel-log", "12", WARN, "triggered on purpose"),
    Owed("kernel-log", "13", WARN, "XID 94: contained memory error", "0000:00:08"),
    Owed("kernel-log", "13", WARN, "an application, unless", "0000:00:05"),
    Owed("kernel-log", "14", WARN, "a link to watch, no dead device", "0000:07:00.0"),
    Owed("kernel-log", "15", FAIL, "SXID 20034", "NVSwitch"),
    Owed("kernel-log", "16", FAIL, "cannot initialise this GPU", "0000:0a:00.0"),
    Owed("kernel-log", "17", WARN, "no fault of the port", "0000:d2:00.0"),
    Owed("kernel-log", "18", FAIL, "nouveau owns the GPUs"),
)


def judged(tool: str, name: str) -> Judgement:
    (file,) = (CAPTURES / tool).glob(f"{name}-*")
    return judge_text(tool, file.read_text(encoding="utf-8", errors="replace"))


@pytest.mark.parametrize("owed", OWED, ids=lambda owed: f"{owed.tool}-{owed.name}")
def test_right_for_the_right_reason(owed: Owed) -> None:
    judgement = judged(owed.tool, owed.name)
    assert judgement.status is owed.status
    said = [
        f"{finding.subject} | {finding.message} | {finding.cause}"
        for finding in judgement.findings
        if finding.status is owed.status
    ]
    assert any(owed.reason in text and owed.subject in text.split(" | ")[0] for text in said), said


def test_one_lost_gpu_is_one_fault_not_many() -> None:
    findings = judged("kernel-log", "16").findings
    assert [finding.subject for finding in findings] == ["GPU 0000:0a:00.0"]


def test_a_line_of_data_is_not_a_second_switch_fault() -> None:
    judgement = judged("kernel-log", "15")
    assert len(judgement.facts["sxids"]) == 2
    assert len(judgement.findings) == 1


def test_recovery_actions_are_consequences_of_the_link_event() -> None:
    findings = judged("kernel-log", "06").findings
    roots = [finding for finding in findings if not finding.caused_by]
    assert {finding.check for finding in roots} == {"kernel.xid-149"}
    assert sum(len(finding.explains) for finding in roots) == 4
    own = next(f for f in findings if f.check == "kernel.xid-154" and "0008:01:00" in f.subject)
    assert "0008:01:00" in own.caused_by


def test_a_driver_that_nouveau_kept_out_is_one_root_cause() -> None:
    findings = judged("kernel-log", "18").findings
    assert [finding.check for finding in findings if not finding.caused_by] == ["kernel.driver-nouveau"]
