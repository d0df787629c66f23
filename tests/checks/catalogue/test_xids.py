"""XIDs over a rack: the root by name, everybody else in peace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ndctl.checks.base import RackView
from ndctl.checks.catalogue.gpu_xid import CHECK
from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from tests.checks.captures import capture
from tests.checks.catalogue.rack_texts import (
    BUSES,
    GB300,
    QUIET_LOG,
    answer,
    blamed,
    node,
    result,
    smi_xml,
    standing,
    view,
    xid,
)

SIGNAL = "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004205c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
PEER = "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x022005c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
RLW = "RLW_SRC_TRACK  Fatal XC0 i0 Link -1 (0x00000004 0x00000000 0x00000000)"


def rack(logs: dict[int, str | CommandResult], nodes: int = 4, expected: int | None = None) -> RackView:
    given = []
    for number in range(1, nodes + 1):
        log = logs.get(number, QUIET_LOG)
        given.append(answer(node(number), {"kernel-log": log, "nvidia-smi-xml": smi_xml()}))
    return view(given, expected)


def judge(of: RackView) -> list[Finding]:
    assert CHECK.judge_rack is not None
    return list(CHECK.judge_rack(of, GB300))


def test_quiet_logs_pass_and_say_how_many_were_read() -> None:
    (found,) = judge(rack({}))
    assert found.status is Status.PASS and "4 kernel logs" in found.message


def test_logs_that_no_longer_reach_back_to_the_boot_say_so() -> None:
    late = "2026-12-02T02:00:00.000001+0000 host kernel: usb 1-1: new device\n"
    (found,) = judge(rack({2: late}))
    assert found.status is Status.PASS and "1 of them no longer reach back" in found.message


@pytest.mark.parametrize(
    "log",
    [
        CommandResult("kernel-log", 126, "", "ndctl: no right to run this as root: sudo: a password is required\n"),
        CommandResult("kernel-log", None, QUIET_LOG, "", timed_out=True),
        CommandResult("kernel-log", 0, QUIET_LOG, "", truncated=True),
        CommandResult("kernel-log", 1, "", "dmesg: read kernel buffer failed: Operation not permitted\n"),
        CommandResult("kernel-log", 0, "", ""),
    ],
    ids=["sudo-refused", "timed-out", "cut", "not-permitted", "empty"],
)
def test_a_log_that_was_not_seen_whole_is_unknown(log: CommandResult) -> None:
    found = judge(rack({3: log}))
    (bad,) = standing(found)
    assert (bad.status, bad.node) == (Status.UNKNOWN, "rack01-n03")
    assert any(f.status is Status.PASS and "3 kernel logs" in f.message for f in found)


def test_what_a_cut_log_does_show_counts() -> None:
    log = result("kernel-log", xid(2, 79, "pid=1, GPU has fallen off the bus."), truncated=True)
    found = judge(rack({1: log}))
    assert {(f.check, f.status) for f in standing(found)} == {
        ("gpu.xid", Status.UNKNOWN),
        ("gpu.xid.79", Status.FAIL),
    }


def test_one_link_explains_the_whole_rack() -> None:
    logs: dict[int, str | CommandResult] = {number: xid(1, 145, RLW, "03:12:10") for number in (1, 2, 4)}
    found = judge(rack({**logs, 3: xid(2, 149, SIGNAL)}))
    (root,) = standing(found)
    assert (root.check, root.node) == ("gpu.xid.149", "rack01-n03")
    assert "0018:01:00" in root.subject and "link 8" in root.subject and "subcode 4" in root.message
    assert {f.caused_by for f in found if f.check == "gpu.xid.145"} == {"gpu.xid.149@rack01-n03"}
    assert root.explains == ("XID 145 on 3 GPUs",)


def test_each_of_two_roots_explains_what_is_nearest() -> None:
    logs = {
        1: xid(0, 149, SIGNAL, "03:12:00"),
        2: xid(1, 145, RLW, "03:12:05"),
        3: xid(1, 145, RLW, "03:12:40"),
        4: xid(3, 149, SIGNAL, "03:12:42"),
    }
    found = judge(rack(dict(logs)))
    causes = {f.node: f.caused_by for f in found if f.check == "gpu.xid.145"}
    assert causes == {"rack01-n02": "gpu.xid.149@rack01-n01", "rack01-n03": "gpu.xid.149@rack01-n04"}
    assert blamed(found) == {"rack01-n01", "rack01-n04"}


def test_peers_that_accuse_one_link_accuse_the_switch_and_no_node() -> None:
    logs: dict[int, str | CommandResult] = {number: xid(number - 1, 149, PEER) for number in (1, 2, 3, 4)}
    logs[2] = xid(0, 145, RLW, "03:12:11", log=xid(1, 149, PEER))
    found = judge(rack(logs))
    (plane,) = standing(found)
    assert (plane.check, plane.node, plane.status) == ("gpu.xid.switch-plane", "", Status.FAIL)
    assert "link 8" in plane.subject


@pytest.mark.parametrize(("missing", "status"), [(0, Status.FAIL), (1, Status.UNKNOWN)])
def test_link_events_without_a_root_blame_no_node(missing: int, status: Status) -> None:
    """The root may be a switch, or the node that died of it and says nothing any more."""
    found = judge(rack({number: xid(1, 145, RLW) for number in (1, 2, 3, 4)}, expected=4 + missing))
    (one,) = standing(found)
    assert (one.check, one.node, one.status) == ("gpu.xid.no-root", "", status)
    assert "4 GPUs of 4 nodes" in one.message


def test_a_silent_node_makes_a_rootless_storm_unknown() -> None:
    of = rack({number: xid(1, 145, RLW) for number in (1, 2, 3)}, nodes=3)
    gone = NodeAnswer(node(4), Outcome(OutcomeKind.UNREACHABLE, "no route"))
    found = judge(replace(of, answers={**of.answers, gone.node: gone}, expected_nodes=4))
    (one,) = standing(found)
    assert (one.check, one.status) == ("gpu.xid.no-root", Status.UNKNOWN)


def test_link_events_without_times_blame_no_node() -> None:
    log = f"kernel: NVRM: Xid (PCI:{BUSES[1]}): 145, {RLW}\n"
    found = judge(rack(dict.fromkeys((1, 2, 3), log)))
    assert blamed(found) == set()
    assert any(f.check == "gpu.xid.no-root" for f in standing(found))


def test_times_without_a_year_are_compared_all_the_same() -> None:
    def line(number: int, gpu: int, text: str, at: str) -> str:
        return f"Dec  2 {at} host kernel: NVRM: Xid (PCI:{BUSES[gpu]}): {number}, {text}\n"

    found = judge(rack({1: line(149, 2, SIGNAL, "03:12:09"), 2: line(145, 0, RLW, "03:12:10")}))
    assert [(f.check, f.node) for f in standing(found)] == [("gpu.xid.149", "rack01-n01")]


def test_an_xid_nobody_knows_is_a_warning() -> None:
    (found,) = judge(rack({1: xid(0, 999, "something new")}))
    assert (found.check, found.status) == ("gpu.xid.999", Status.WARN)


def test_a_recovery_action_that_was_taken_is_over() -> None:
    first = xid(0, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "03:12:10")
    both = xid(0, 154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "04:00:00", log=first)
    assert standing(judge(rack({1: both}))) == []
    (waits,) = standing(judge(rack({1: first})))
    assert (waits.check, waits.action) == ("gpu.xid.154", Action.RESET_GPU)


def test_injected_errors_are_somebodys_test() -> None:
    found = judge(rack({1: xid(2, 149, SIGNAL.replace(" i0 ", " i1 "))}))
    assert [f.status for f in found] == [Status.PASS]


def test_a_captured_cascade_that_accuses_the_peer_only_asks_for_a_reset() -> None:
    found = judge(rack({2: capture("kernel-log", "06")}))
    assert {(f.check, f.status) for f in standing(found)} == {
        ("gpu.xid.149", Status.WARN),
        ("gpu.xid.154", Status.FAIL),
    }
    assert all("not to blame" in f.message for f in standing(found) if f.check == "gpu.xid.149")


def test_seconds_since_boot_of_two_nodes_are_not_compared() -> None:
    def line(number: int, gpu: int, text: str, at: str) -> str:
        return f"[{at}] NVRM: Xid (PCI:{BUSES[gpu]}): {number}, {text}\n"

    found = judge(rack({1: line(149, 2, SIGNAL, "  900.000001"), 2: line(145, 0, RLW, "  901.000001")}))
    assert [f.caused_by for f in found if f.check == "gpu.xid.145"] == [""]


def test_a_gpu_off_the_bus_is_told_once() -> None:
    lost = "2026-12-02T03:12:10.000001+0000 host kernel: NVRM: GPU 0018:01:00.0: GPU has fallen off the bus.\n"
    log = xid(2, 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.") + lost
    assert [f.check for f in standing(judge(rack({1: log})))] == ["gpu.xid.79"]
    (found,) = standing(judge(rack({1: QUIET_LOG + lost})))
    assert found.check == "gpu.xid.fell-off-bus" and "0018:01:00" in found.subject
