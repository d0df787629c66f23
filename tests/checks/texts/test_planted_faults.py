"""A healthy output with one thing changed: that part is named, and no other."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pytest

from ndctl.checks.judge import detect, judge_text
from ndctl.model.status import Action, Status
from ndctl.profiles import load
from tests.parse.composed import HEALTHY

FAIL, WARN, UNKNOWN, PASS = Status.FAIL, Status.WARN, Status.UNKNOWN, Status.PASS


@dataclass(frozen=True)
class Planted:
    """The nth `old` (one blank stands for many) becomes `new`; one finding of that status names part and words."""

    tool: str
    old: str
    new: str
    status: Status
    subject: str
    words: str
    nth: int = 1
    profile: str | None = None
    action: Action | None = None


PLANTED = (
    Planted("nvlink-status", "Link 8: 53.125 GB/s", "Link 8: <inactive>", FAIL, "GPU 2 link 8", "17 of 18 links", 3),
    Planted("nvlink-status", "Link 8: 53.125 GB/s", "Link 8: Disabled", FAIL, "GPU 0 link 8", "17 of 18 links"),
    Planted("nvlink-status", "Link 3: 53.125 GB/s", "Link 3: 26.562 GB/s", WARN, "GPU 1 link 3", "not 53.125", 2),
    Planted(
        "nvlink-status", "Link 3: 53.125 GB/s", "Link 3: 26.562 GB/s", FAIL, "GPU 1 link 3", "not 53.125", 2, "gb300"
    ),
    Planted("nvlink-status", "\t Link 5: 53.125 GB/s\n", "", FAIL, "GPU 1", "17 links listed", 2, "gb300"),
    Planted(
        "nvlink-errors", "recovery failed events: 0", "recovery failed events: 2", FAIL, "GPU 0 link 1", "failed", 2
    ),
    Planted("nvlink-errors", "Symbol Errors: 0", "Symbol Errors: 7", WARN, "GPU 0 link 0", "Symbol Errors: 7"),
    Planted("nvlink-errors", "Effective BER: 15e-255", "Effective BER: 4e-7", WARN, "GPU 0 link 2", "4e-07", 3),
    Planted("nvlink-errors", "Rx Errors: 0", f"Rx Errors: {2**32 - 1}", WARN, "GPU 0 link 0", "largest value"),
    Planted("nvidia-smi-q", "  Pending : No", "  Pending : Yes", FAIL, "GPU 1", "remap is pending", 2),
    Planted(
        "nvidia-smi-q",
        "Remapping Failure Occurred : No",
        "Remapping Failure Occurred : Yes",
        FAIL,
        "GPU 3 (00000019:01:00.0)",
        "could not be remapped",
        4,
        action=Action.REPLACE_AND_REPORT,
    ),
    Planted(
        "nvidia-smi-q",
        "GPU Recovery Action : None",
        "GPU Recovery Action : Drain and Reset",
        FAIL,
        "GPU 0",
        "Drain and Reset",
        action=Action.RESET_GPU,
    ),
    Planted("nvidia-smi-q", "Recovery Action : None", "Recovery Action : Levitate", WARN, "GPU 0", "Levitate"),
    Planted("nvidia-smi-q", "SRAM Threshold Exceeded : No", "SRAM Threshold Exceeded : Yes", FAIL, "GPU 0", "SRAM"),
    Planted("nvidia-smi-q", "Unrepairable Memory : No", "Unrepairable Memory : Yes", FAIL, "GPU 2", "repaired", 3),
    Planted("nvidia-smi-q", "TPC Repair Pending : No", "TPC Repair Pending : Yes", FAIL, "GPU 0", "TPC repair"),
    Planted(
        "nvidia-smi-q",
        "HW Power Brake Slowdown : Not Active",
        "HW Power Brake Slowdown : Active",
        FAIL,
        "GPU 0",
        "power brake",
    ),
    Planted("nvidia-smi-q", "T.Limit Temp : 51 C", "T.Limit Temp : -1 C", FAIL, "GPU 0", "margin"),
    Planted("nvidia-smi-q", "Status : Success", "Status : Insufficient Resources", FAIL, "GPU 1", "cannot be used", 2),
    Planted("nvidia-smi-q", "State : Completed", "State : In Progress", WARN, "GPU 1", "normal for minutes", 2),
    Planted(
        "nvidia-smi-q", "State : Completed", "State : Not Supported", FAIL, "GPU 1", "no NVLink fabric", 2, "gb300"
    ),
    Planted("nvidia-smi-q", "CliqueId : 32766", "CliqueId : 32765", FAIL, "GPUs", "different NVLink cliques", 3),
    Planted("nvidia-smi-q", "Route Unhealthy : False", "Route Unhealthy : True", FAIL, "GPU 2", "route unhealthy", 3),
    Planted(
        "nvidia-smi-q",
        "Incorrect Configuration : None",
        "Incorrect Configuration : Insufficient NVLinks",
        FAIL,
        "GPU 0",
        "Insufficient NVLinks",
    ),
    Planted(
        "nvidia-smi-q", "Memory Current Temp : 34 C", "Memory Current Temp : 97 C", FAIL, "GPU 0", "97", 1, "gb300"
    ),
    Planted(
        "nvidia-smi-q",
        "Persistence Mode : Enabled",
        "Persistence Mode : Disabled",
        WARN,
        "GPU 0",
        "persistence",
        1,
        "gb300",
    ),
    Planted("nvidia-smi-q", "Attached GPUs : 4", "Attached GPUs : 5", WARN, "GPUs", "4 of 5 attached"),
    Planted(
        "nvidia-smi-xml",
        "<remapped_row_pending>No",
        "<remapped_row_pending>Yes",
        FAIL,
        "GPU 2 (00000018",
        "remap is pending",
        3,
    ),
    Planted(
        "nvidia-smi-xml", "<dram_uncorrectable>0", "<dram_uncorrectable>3", FAIL, "GPU 0", "3 uncorrectable ECC errors"
    ),
    Planted(
        "nvidia-smi-xml",
        "<gpu_recovery_action>None",
        "<gpu_recovery_action>Node Reboot Required",
        FAIL,
        "GPU 1",
        "Node Reboot",
        2,
        action=Action.REBOOT,
    ),
    Planted("nvidia-smi-xml", "<status>Success", "<status>Insufficient Resources", FAIL, "GPU 3", "cannot be used", 4),
    Planted("nvidia-smi-xml", "<summary>Healthy", "<summary>Unhealthy", FAIL, "GPU 0", "Unhealthy"),
    Planted("nvidia-smi", "Off | 0 |", "Off | 4 |", FAIL, "GPU 1", "4 uncorrectable", 2),
    Planted("nvidia-smi-csv", "0, No, No, None", "0, Yes, No, None", FAIL, "GPU 2", "remap is pending", 3),
    Planted("topo", "NV18", "NV17", FAIL, "GPU0 and GPU1", "NV17, not NV18"),
    Planted(
        "imex",
        "Node #4 - 10.40.0.8 - READY ",
        "Node #4 - 10.40.0.8 - UNAVAILABLE ",
        FAIL,
        "node 4 (10.40.0.8)",
        "UNAVAILABLE",
    ),
    Planted("imex", "Version: 580.126.20", "Version: 570.172", WARN, "node 2", "570.172", 3),
    Planted("imex", "Domain State: UP", "Domain State: DEGRADED", FAIL, "IMEX domain", "DEGRADED"),
    Planted("imex", "Domain State: UP", "", UNKNOWN, "text", "no domain state"),
    Planted("ib-sysfs", "4: ACTIVE", "1: DOWN", FAIL, "mlx5_ib2 port 1", "Down", 3),
    Planted("ib-sysfs", "800 Gb/sec (4X XDR)", "400 Gb/sec (4X NDR)", WARN, "mlx5_ib1 port 1", "400 Gb/s, not 800", 2),
    Planted(
        "ib-sysfs",
        "800 Gb/sec (4X XDR)",
        "400 Gb/sec (4X NDR)",
        FAIL,
        "mlx5_ib1 port 1",
        "400 Gb/s, not 800",
        2,
        "gb300",
    ),
    Planted(
        "ib-sysfs", "pkeys/0:0x8123", "pkeys/0:0x8124", FAIL, "mlx5_ib3 port 1", "partition keys differ", 4, "gb300"
    ),
    Planted(
        "ib-sysfs", "counters/symbol_error:0", "counters/symbol_error:214", WARN, "mlx5_ib0 port 1", "symbol_error 214"
    ),
    Planted("ib-sysfs", "4: ACTIVE", "2: INIT", FAIL, "mlx5_ib0 port 1", "no subnet manager"),
    Planted("ibstat", "Physical state: LinkUp", "Physical state: Polling", FAIL, "mlx5_ib0 port 1", "Polling"),
    Planted("ibstat", "State: Active", "State: Initializing", FAIL, "mlx5_ib1 port 1", "no subnet manager", 2),
    Planted("ibstatus", "4: ACTIVE", "1: DOWN", FAIL, "mlx5_ib0 port 1", "Down"),
    Planted("ibv-devinfo", "PORT_ACTIVE (4)", "PORT_DOWN (1)", FAIL, "mlx5_ib3 port 1", "Down", 4),
    Planted(
        "rdma-link",
        "state ACTIVE physical_state LINK_UP",
        "state DOWN physical_state POLLING",
        FAIL,
        "mlx5_ib0 port 1",
        "Polling",
    ),
    Planted("iblinkinfo", "==( 4X 212.5 Gbps Active/ LinkUp)==>", "==( Down/ Polling)==>", FAIL, "rack01-n01", "Down"),
    Planted(
        "iblinkinfo",
        '"Quantum-X800 Leaf" ( )',
        '"Quantum-X800 Leaf" ( Could be 212.5 Gbps)',
        WARN,
        "rack01-n02",
        "Could be",
        2,
    ),
    Planted(
        "perfquery",
        "SymbolErrorCounter:..............0",
        "SymbolErrorCounter:..............77",
        WARN,
        "Lid 1200 port 1",
        "77",
    ),
    Planted("mlxlink", "State : Active", "State : Polling", FAIL, "port", "Polling"),
    Planted("mlxlink", "No issue was observed", "Bad signal integrity", WARN, "port", "Bad signal integrity"),
    Planted("mlxlink", "IB-XDR", "IB-NDR", FAIL, "port", "400 Gb/s", 1, "gb300"),
)


def planted(one: Planted) -> str:
    text = HEALTHY[one.tool]
    wanted = r"[ ]+".join(re.escape(part) for part in one.old.split(" "))
    places = list(re.finditer(wanted, text))
    assert len(places) >= one.nth, "the healthy text has no such place"
    place = places[one.nth - 1]
    return text[: place.start()] + one.new + text[place.end() :]


@pytest.mark.parametrize("one", PLANTED, ids=lambda one: f"{one.tool}: {one.new[:40]}")
def test_the_changed_part_is_named_and_no_other(one: Planted) -> None:
    judgement = judge_text(one.tool, planted(one), load(one.profile) if one.profile else None)
    assert judgement.status is one.status
    blamed = [finding for finding in judgement.findings if finding.status is one.status]
    assert len(blamed) == 1, [finding.message for finding in blamed]
    assert one.subject in blamed[0].subject
    assert one.words in blamed[0].message
    if one.action is not None:
        assert blamed[0].action is one.action


@pytest.mark.parametrize("tool", sorted(set(HEALTHY) - {"iblinkinfo", "ibqueryerrors", "perfquery"}))
def test_healthy_gb300_outputs_pass_under_their_profile(tool: str) -> None:
    judgement = judge_text(tool, HEALTHY[tool], load("gb300"))
    assert judgement.status is PASS, [(f.subject, f.message) for f in judgement.findings]


@pytest.mark.parametrize(
    "tool", ["nvlink-status", "nvidia-smi-q", "nvidia-smi-xml", "ib-sysfs", "ibstat", "nvidia-smi"]
)
def test_another_size_is_no_pass_under_this_profile(tool: str) -> None:
    assert judge_text(tool, HEALTHY[tool], load("h200")).status is not PASS


@pytest.mark.parametrize("tool", sorted(HEALTHY))
def test_auto_recognises_it(tool: str) -> None:
    found, reason = detect(HEALTHY[tool])
    assert found is not None, reason
    assert found.tool == tool


def test_a_missing_gpu_is_missed_only_where_the_profile_says_so() -> None:
    text = HEALTHY["nvlink-status"].split("GPU 3:")[0]
    assert judge_text("nvlink-status", text).status is PASS
    finding = judge_text("nvlink-status", text, load("gb300")).findings[0]
    assert (finding.status, finding.value, finding.expected) == (FAIL, 3, "4")


def test_one_absent_imex_node_is_one_finding() -> None:
    rows = HEALTHY["imex"].split("\n")
    text = "\n".join(
        re.sub(r"^(\s+\d+\s+)(C\s+){4}C", lambda m: m[0][:-1] + "N", row) if re.match(r"^\s+\d+\s+C", row) else row
        for row in rows
    )
    findings = [f for f in judge_text("imex", text).findings if f.check == "imex.connection"]
    assert [f.subject for f in findings] == ["IMEX node 4 (10.40.0.8)"]
    assert "18 of 18 nodes" in findings[0].message


def test_a_whole_listing_that_hides_its_counts_is_unknown() -> None:
    text = re.sub(r"(RAM \w+(?: \S+)?\s+: )\d+", r"\1N/A", HEALTHY["nvidia-smi-q"])
    judgement = judge_text("nvidia-smi-q", text, load("gb300"))
    assert judgement.status is UNKNOWN
    assert "ECC counts" in judgement.findings[0].message


@pytest.mark.parametrize("before", ["", "azureuser@rack01-n03:~$ nvidia-imex-ctl -N -j\n"])
def test_a_racks_json_on_one_line_is_read_whole(before: str) -> None:
    nodes = {
        str(n): {
            "status": "READY",
            "host": f"10.40.0.{n + 4}",
            "hostName": "N/A",
            "version": "580.126.20",
            "connections": {str(m): {"status": "CONNECTED", "changed": True} for m in range(18)},
        }
        for n in range(18)
    }
    text = before + json.dumps({"nodes": nodes, "timestamp": "8/14/2026 09:12:33.100", "status": "UP"})
    judgement = judge_text("imex", text, load("gb300"))
    assert judgement.status is PASS
    assert judgement.facts["nodes"][17]["connections"]["0"] == "CONNECTED"
    assert judge_text("imex", text[: len(text) // 2]).status is UNKNOWN
    down = text.replace('"status": "READY"', '"status": "UNAVAILABLE"', 1)
    assert judge_text("imex", down).status is FAIL
