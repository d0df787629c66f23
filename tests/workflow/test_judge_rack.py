"""A rack's result from its nodes' texts: never accepted without having looked, and no healthy part is blamed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ndctl.checks.base import Check
from ndctl.checks.registry import catalogue
from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status, Verdict
from ndctl.profiles import load
from tests.checks.catalogue.rack_texts import (
    GB300,
    LINKS,
    answer,
    blamed,
    gpu_xml,
    healthy,
    imex_json,
    judged,
    node,
    rack_of,
    result,
    smi_xml,
    standing,
    view,
    xid,
)

NODES = [node(number) for number in range(1, 19)]
CHECKS = tuple(check for check in catalogue() if check.applies(GB300))


def answers(change: dict[int, dict[str, str | CommandResult]] | None = None) -> list[NodeAnswer]:
    texts = healthy(NODES)
    for number, changed in (change or {}).items():
        texts[NODES[number - 1]].update(changed)
    return [answer(one, texts[one]) for one in NODES]


def silent(number: int, kind: OutcomeKind = OutcomeKind.UNREACHABLE) -> NodeAnswer:
    return NodeAnswer(NODES[number - 1], Outcome(kind, "no route"))


def test_a_healthy_rack_is_accepted_and_every_check_says_why() -> None:
    rack = judged(answers(), CHECKS)
    assert standing(rack.findings) == []
    assert rack.verdict is Verdict.ACCEPTED
    assert len(rack.usable_nodes) == 18
    for check in CHECKS:
        assert [f for f in rack.findings if f.check == check.id], check.id


def test_a_node_that_ran_nothing_is_unknown_in_one_finding() -> None:
    given = answers()
    given[4] = NodeAnswer(NODES[4], Outcome(OutcomeKind.OK, "the node has no `timeout`"))
    rack = judged(given, CHECKS)
    assert [(f.check, f.node) for f in standing(rack.findings)] == [("host.reachable", "rack01-n05")]
    assert "timeout" in standing(rack.findings)[0].message
    assert rack.verdict is Verdict.INCOMPLETE
    assert "rack01-n05" not in rack.usable_nodes and len(rack.usable_nodes) == 17


def test_a_connection_that_broke_leaves_one_finding_and_what_it_had_said_counts() -> None:
    given = answers({7: {"kernel-log": xid(2, 79, "pid=1, GPU has fallen off the bus.")}})
    kept = {name: one for name, one in given[6].results.items() if name in ("identity", "kernel-log", "nvidia-smi-xml")}
    given[6] = NodeAnswer(NODES[6], Outcome(OutcomeKind.CONNECTION_LOST, "broke"), kept)
    rack = judged(given, CHECKS)
    assert {(f.check, f.status) for f in standing(rack.findings)} == {
        ("host.reachable", Status.UNKNOWN),
        ("gpu.xid.79", Status.FAIL),
    }
    assert rack.verdict is Verdict.REJECTED


def test_half_of_the_nodes_silent_is_incomplete_and_nobody_is_blamed() -> None:
    given = answers()
    states = {one.address: "UNAVAILABLE" for one in NODES[9:]}
    seen = imex_json([one.address for one in NODES], states, status="DEGRADED")
    given = [answer(a.node, {**a.results, "imex-domain": seen}) for a in given[:9]] + [silent(n) for n in range(10, 19)]
    rack = judged(given, CHECKS)
    assert rack.verdict is Verdict.INCOMPLETE
    assert {f.check for f in standing(rack.findings)} == {"host.reachable"}
    assert blamed(rack.findings) == set()
    assert len(rack.usable_nodes) == 9


def test_a_silent_rack_is_told_of_in_one_finding_a_node() -> None:
    """That it listed no GPU either is no news."""
    rack = judged([silent(number, OutcomeKind.REFUSED) for number in range(1, 19)], CHECKS)
    assert rack.verdict is Verdict.INCOMPLETE and rack.usable_nodes == ()
    told = [finding for finding in rack.findings if finding.status is not Status.SKIP]
    assert [(f.check, f.node) for f in told] == [("host.reachable", one.name) for one in NODES]


def test_nodes_that_do_not_exist_are_told() -> None:
    rack = judged(answers()[:17], CHECKS, rack_of(NODES[:17], 18))
    assert rack.verdict is Verdict.INCOMPLETE
    assert any(f.check == "host.present" and "17 of 18" in f.message for f in standing(rack.findings))
    assert blamed(rack.findings) == set()


@pytest.mark.parametrize("expected", [0, 2, 18])
def test_a_rack_without_nodes_is_incomplete(expected: int) -> None:
    rack = judged([], CHECKS, rack_of([], expected))
    assert rack.verdict is Verdict.INCOMPLETE
    assert rack.usable_nodes == ()


def test_a_node_nobody_asked_is_unknown() -> None:
    rack = judged(answers()[:17], CHECKS, rack_of(NODES))
    assert rack.verdict is Verdict.INCOMPLETE
    assert [(f.node, f.message) for f in standing(rack.findings) if f.check == "host.reachable"] == [
        ("rack01-n18", "was not asked")
    ]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
@pytest.mark.parametrize("how", ["timed-out", "missing-tool", "refused", "gone", "empty"])
def test_no_check_passes_a_node_it_could_not_see(check: Check, how: str) -> None:
    made = {
        "timed-out": lambda c: CommandResult(c, None, timed_out=True),
        "missing-tool": lambda c: CommandResult(c, 127, "", "sh: 1: not found"),
        "refused": lambda c: CommandResult(c, 126, "", "ndctl: no right to run this as root: a password is required"),
        "empty": lambda c: CommandResult(c, 0, "", ""),
    }
    given = answers()
    ids = {command.id for command in check.commands}
    of = given[2]
    changed = {name: made[how](name) if name in ids and how != "gone" else one for name, one in of.results.items()}
    given[2] = replace(of, results={k: v for k, v in changed.items() if how != "gone" or k not in ids})
    rack = judged(given, [check])
    if not check.required and how in ("empty", "missing-tool", "refused"):
        # What not every image has may be skipped, with the reason; it never passes.
        said = [f for f in rack.findings if f.node == "rack01-n03" and f.check.startswith(check.id)]
        assert all(f.status is not Status.PASS and f.message for f in said)
        assert said or how == "empty"
        return
    about = [f for f in standing(rack.findings) if f.node == "rack01-n03"]
    assert about, f"{check.id} says nothing of a node whose commands were {how}"
    if how != "empty":
        assert {f.status for f in about} == {Status.UNKNOWN}
    assert rack.verdict is not Verdict.ACCEPTED and rack.verdict is not Verdict.DEGRADED
    assert blamed(rack.findings) <= {"rack01-n03"}


def test_a_check_that_breaks_costs_only_its_own_answer() -> None:
    def explode(of: NodeAnswer, profile: object) -> list[Finding]:
        raise IndexError("list index out of range")

    broken = Check("gpu.broken", Group.GPU, Level.QUICK, "breaks", CHECKS[0].commands, judge_node=explode)
    rack = judged(answers(), [*CHECKS, broken])
    found = standing(rack.findings)
    assert len(found) == 18 and {f.check for f in found} == {"gpu.broken"}
    assert all(f.status is Status.UNKNOWN and "IndexError" in f.message for f in found)
    assert rack.verdict is Verdict.INCOMPLETE


def test_a_check_that_says_nothing_of_a_node_is_unknown_there() -> None:
    mute = Check("gpu.mute", Group.GPU, Level.QUICK, "mute", CHECKS[0].commands, judge_node=lambda a, p: [])
    assert {f.status for f in judged(answers(), [mute]).findings if f.check == "gpu.mute"} == {Status.UNKNOWN}


def test_a_required_check_without_a_finding_is_incomplete() -> None:
    mute = Check("gpu.mute", Group.GPU, Level.QUICK, "mute", CHECKS[0].commands, judge_rack=lambda v, p: [])
    assert judged(answers(), [*CHECKS, mute]).verdict is Verdict.INCOMPLETE


def test_nothing_chosen_is_never_accepted() -> None:
    rack = judged(answers(), [])
    assert rack.verdict is Verdict.INCOMPLETE
    assert "no check is left to ask" in standing(rack.findings)[0].message


def test_a_disabled_check_is_shown_and_does_not_count() -> None:
    given = answers({3: {"fabric-manager": "active\n"}})
    assert judged(given, CHECKS).verdict is Verdict.REJECTED
    rack = judged(given, CHECKS, disabled={"nvlink.fabric-manager": "known (until 2027-01-31)"})
    assert rack.verdict is Verdict.ACCEPTED
    (shown,) = [f for f in rack.findings if f.check == "nvlink.fabric-manager"]
    assert shown.status is Status.SKIP and "2027-01-31" in shown.message


def test_all_checks_disabled_is_not_accepted() -> None:
    rack = judged(answers(), CHECKS, disabled={check.id: "off" for check in CHECKS})
    assert rack.verdict is Verdict.INCOMPLETE


def test_findings_of_a_disabled_active_check_are_left_out_with_their_details() -> None:
    slow = Finding(check="nccl.all-reduce.leftovers", status=Status.FAIL, subject="rack01", message="x")
    rack = judged(answers(), CHECKS, active=[slow], disabled={"nccl.all-reduce": "no MPI (until 2027-01-31)"})
    assert rack.verdict is Verdict.ACCEPTED
    assert [f.status for f in rack.findings if f.check.startswith("nccl")] == [Status.SKIP]


def test_an_active_check_that_must_have_an_answer_and_has_none_is_incomplete() -> None:
    rack = judged(answers(), CHECKS, active_required=["nccl.all-reduce"])
    assert rack.verdict is Verdict.INCOMPLETE


def test_a_link_that_is_down_is_one_fault_with_its_xids_and_what_they_brought_about() -> None:
    text = "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004205c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
    sympathetic = "RLW_SRC_TRACK  Nonfatal XC0 i0 Link -1 (0x00000004 0x00000000 0x00000000)"
    change: dict[int, dict[str, str | CommandResult]] = {
        number: {"kernel-log": xid(1, 145, sympathetic, "03:12:10")} for number in range(1, 19)
    }
    change[11] = {
        "kernel-log": xid(2, 149, text),
        "nvlink-status": LINKS.replace(
            "GPU 2: NVIDIA GB300 (UUID: GPU-2)\n" + "".join(f"\t Link {n}: 53.125 GB/s\n" for n in range(9)),
            "GPU 2: NVIDIA GB300 (UUID: GPU-2)\n"
            + "".join(f"\t Link {n}: 53.125 GB/s\n" for n in range(8))
            + "\t Link 8: <inactive>\n",
        ),
    }
    slow = Finding(check="nccl.all-reduce", status=Status.FAIL, subject="rack01", message="412 GB/s")
    rack = judged(answers(change), CHECKS, active=[slow])
    (root,) = standing(rack.findings)
    assert (root.check, root.node) == ("nvlink.links.link-down", "rack01-n11")
    assert "0018:01:00" in root.subject and root.action is Action.REPLACE_AND_REPORT
    assert any("XID 145 on 17 GPUs" in text for text in root.explains)
    assert any("412 GB/s" in text for text in root.explains)
    assert len(rack.usable_nodes) == 17


def test_a_hung_driver_does_not_hide_the_xid_that_tells_why() -> None:
    hung = {name: CommandResult(name, None, timed_out=True) for name in ("nvidia-smi-xml", "nvlink-status")}
    rack = judged(answers({6: {**hung, "kernel-log": xid(0, 119, "Timeout waiting for RPC from GSP!")}}), CHECKS)
    assert {(f.check, f.status) for f in standing(rack.findings)} >= {("gpu.xid.119", Status.FAIL)}
    assert rack.verdict is Verdict.REJECTED
    assert blamed(rack.findings) == {"rack01-n06"}


def test_a_missing_gpu_is_one_fault() -> None:
    three = smi_xml([gpu_xml(index) for index in (0, 1, 3)])
    rows = LINKS.splitlines(keepends=True)
    links = "".join(rows[: 19 * 2] + rows[19 * 3 :])
    rack = judged(answers({4: {"nvidia-smi-xml": three, "nvlink-status": links}}), CHECKS)
    assert {(f.check, f.node) for f in standing(rack.findings)} == {("gpu.count", "rack01-n04")}
    assert "0018:01:00" in standing(rack.findings)[0].subject


def test_an_h200_is_asked_for_its_fabric_manager_and_for_no_imex() -> None:
    h200 = load("h200")
    ids = {check.id for check in catalogue() if check.applies(h200)}
    assert "nvlink.fabric-manager" in ids and not ids & {"nvlink.imex", "nvlink.imex-list", "nvlink.clique"}
    (check,) = [check for check in catalogue() if check.id == "nvlink.fabric-manager"]
    states = {"active": Status.PASS, "inactive": Status.FAIL, "failed": Status.FAIL, "activating": Status.UNKNOWN}
    for state, wanted in {**states, "offline": Status.UNKNOWN, "": Status.UNKNOWN}.items():
        code = 0 if state == "active" else 3
        rack = judged(
            [answer(NODES[0], {"fabric-manager": result("fabric-manager", state, code=code)})], [check], profile=h200
        )
        (found,) = [f for f in rack.findings if f.check == check.id]
        assert found.status is wanted, state
        assert found.status is not Status.FAIL or found.cause


def test_two_nodes_of_different_versions_are_a_split_and_nobody_is_blamed() -> None:
    pair = [node(1), node(2)]
    texts = healthy(pair)
    texts[pair[1]]["nvidia-smi-xml"] = smi_xml(driver="570.0")
    rack = judged([answer(one, texts[one]) for one in pair], CHECKS)
    assert rack.verdict is Verdict.DEGRADED
    assert blamed(rack.findings) == set()
    assert "split" in standing(rack.findings)[0].message
    assert len(view([answer(one, texts[one]) for one in pair]).answers) == 2
