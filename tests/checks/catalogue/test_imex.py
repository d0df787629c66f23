"""IMEX from all nodes at once: the node or pair that is wrong, and nobody who merely sees it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ndctl.checks.catalogue.nvlink_imex import CHECK
from ndctl.checks.catalogue.nvlink_imex_list import CHECK as LIST
from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status
from tests.checks.captures import capture
from tests.checks.catalogue.rack_texts import (
    GB300,
    answer,
    blamed,
    identity,
    imex_json,
    node,
    result,
    standing,
    view,
)

NODES = [node(number) for number in range(1, 19)]
HOSTS = [one.address for one in NODES]


def judge(
    tables: dict[int, str] | Callable[[int], str], nodes: list[Node] = NODES, gone: tuple[int, ...] = ()
) -> list[Finding]:
    """Table of each node by position; nodes in `gone` do not answer."""
    table = tables if callable(tables) else lambda number: tables.get(number, imex_json([n.address for n in nodes]))
    given = [
        NodeAnswer(one, Outcome(OutcomeKind.UNREACHABLE, "no route"))
        if number in gone
        else answer(one, {"imex-domain": table(number), "identity": identity(one)})
        for number, one in enumerate(nodes, 1)
    ]
    assert CHECK.judge_rack is not None
    return list(CHECK.judge_rack(view(given), GB300))


def test_a_full_mesh_passes() -> None:
    (found,) = judge({})
    assert found.status is Status.PASS and "18/18" in found.message


def test_a_captured_domain_passes_from_all_its_nodes() -> None:
    text = capture("imex", "01")
    hosts = [line.split("-")[1].strip() for line in text.splitlines() if line.startswith("Node #")]
    nodes = [node(number, host) for number, host in enumerate(hosts, 1)]
    found = judge(lambda number: text, nodes)
    assert [f.status for f in found] == [Status.PASS], found


def test_one_node_that_is_down_and_answers_is_named_once() -> None:
    found = judge(lambda number: imex_json(HOSTS, {HOSTS[8]: "UNAVAILABLE"}, status="DEGRADED"))
    (bad,) = standing(found)
    assert (bad.check, bad.node, bad.status) == ("nvlink.imex.not-ready", "rack01-n09", Status.FAIL)


def test_a_node_that_does_not_answer_is_not_called_broken() -> None:
    found = judge(lambda number: imex_json(HOSTS, {HOSTS[8]: "UNAVAILABLE"}, status="DEGRADED"), gone=(9,))
    (bad,) = standing(found)
    assert (bad.node, bad.status) == ("rack01-n09", Status.UNKNOWN)


def test_its_own_word_counts_before_that_of_its_peers() -> None:
    found = judge({3: imex_json(HOSTS, {HOSTS[2]: "SHUTTING_DOWN"})})
    assert [(f.node, f.value) for f in standing(found)] == [("rack01-n03", "SHUTTING_DOWN")]


def test_one_direction_is_a_pair() -> None:
    found = judge({2: imex_json(HOSTS, broken={(HOSTS[1], HOSTS[6]): "NEVER_CONNECTED"}, status="DEGRADED")})
    (bad,) = standing(found)
    assert bad.check == "nvlink.imex.one-way" and bad.node == ""
    assert bad.subject == "rack01-n02 → rack01-n07"
    assert bad.message == "rack01-n02 does not reach rack01-n07 (NEVER_CONNECTED), while rack01-n07 reaches rack01-n02"


def test_a_node_that_none_can_reach_is_one_finding() -> None:
    broken = {
        pair: "DISCONNECTED" for host in HOSTS if host != HOSTS[4] for pair in ((host, HOSTS[4]), (HOSTS[4], host))
    }
    (bad,) = standing(judge(lambda number: imex_json(HOSTS, broken=broken, status="DEGRADED")))
    assert (bad.check, bad.node) == ("nvlink.imex.disconnected", "rack01-n05")
    assert "17 of 17 peers" in bad.message


def test_when_all_are_apart_nobody_is_blamed() -> None:
    broken = {(one, two): "DISCONNECTED" for one in HOSTS for two in HOSTS if one != two}
    (bad,) = standing(judge(lambda number: imex_json(HOSTS, broken=broken, status="DOWN")))
    assert (bad.subject, bad.node, bad.status) == ("rack01", "", Status.FAIL)


def test_two_nodes_that_see_each_other_gone_are_a_pair() -> None:
    pair = NODES[:2]
    hosts = HOSTS[:2]
    found = judge(lambda n: imex_json(hosts, {hosts[2 - n]: "UNAVAILABLE"}, status="DEGRADED"), pair)
    assert [(f.subject, f.node) for f in standing(found)] == [("rack01-n01 ↔ rack01-n02", "")]


def test_a_version_that_differs_is_a_warning_and_does_not_hide_a_domain_that_is_down() -> None:
    versions = {HOSTS[3]: "570.1"}
    (skew,) = standing(judge(lambda number: imex_json(HOSTS, versions=versions)))
    assert (skew.check, skew.node, skew.status) == ("nvlink.imex.version", "rack01-n04", Status.WARN)
    found = standing(judge(lambda number: imex_json(HOSTS, versions=versions, status="DOWN")))
    assert {f.check for f in found} == {"nvlink.imex.version", "nvlink.imex.domain"}


def test_a_domain_that_is_down_without_a_reason_fails_the_rack_and_no_node() -> None:
    (bad,) = standing(judge(lambda number: imex_json(HOSTS, status="DOWN")))
    assert (bad.check, bad.node, bad.status) == ("nvlink.imex.domain", "", Status.FAIL)
    assert bad.cause


def test_a_selection_of_two_nodes_makes_no_strangers_of_the_others() -> None:
    found = judge(lambda number: imex_json(HOSTS), NODES[:2])
    assert standing(found) == []
    states = {HOSTS[10]: "UNAVAILABLE"}
    (other,) = standing(judge(lambda number: imex_json(HOSTS, states, status="DEGRADED"), NODES[:2]))
    assert (other.status, other.node) == (Status.WARN, "")


def test_two_racks_in_one_list_are_strangers() -> None:
    hosts = [*HOSTS, *(f"10.0.1.{number}" for number in range(1, 19))]
    (bad,) = standing(judge(lambda number: imex_json(hosts)))
    assert (bad.check, bad.status) == ("nvlink.imex.stranger", Status.WARN)


def test_names_instead_of_addresses_blame_nobody_and_are_counted() -> None:
    names = [f"gpu{number:02d}" for number in range(1, 19)]
    assert standing(judge(lambda number: imex_json(names))) == []
    (bad,) = standing(judge(lambda number: imex_json(names[:17])))
    assert (bad.check, bad.node, bad.status) == ("nvlink.imex.not-listed", "", Status.FAIL)


def test_public_addresses_are_known_by_what_the_nodes_say_themselves() -> None:
    nodes = [node(number, f"203.0.113.{number}") for number in range(1, 19)]
    given = [
        NodeAnswer(one, Outcome(OutcomeKind.UNREACHABLE, ""))
        if number == 18
        else answer(one, {"imex-domain": imex_json(HOSTS), "identity": identity(one, HOSTS[number - 1])})
        for number, one in enumerate(nodes, 1)
    ]
    assert CHECK.judge_rack is not None
    assert standing(CHECK.judge_rack(view(given), GB300)) == []


def test_a_node_no_list_names_is_named() -> None:
    found = judge(lambda number: imex_json(HOSTS[:17]))
    assert [(f.check, f.node) for f in standing(found)] == [("nvlink.imex.not-listed", "rack01-n18")]


def test_a_table_without_connections_proves_no_mesh() -> None:
    bare = capture("imex", "01").split("Nodes From")[0]
    hosts = [line.split("-")[1].strip() for line in bare.splitlines() if line.startswith("Node #")]
    nodes = [node(number, host) for number, host in enumerate(hosts, 1)]
    found = judge(lambda number: bare + "\nDomain State: UP\n", nodes)
    assert [(f.check, f.status) for f in found] == [("nvlink.imex.unproven", Status.UNKNOWN)]


def test_a_daemon_that_starts_is_waited_for() -> None:
    found = judge(lambda number: imex_json(HOSTS, {HOSTS[0]: "WAITING_FOR_PEERS"}, status="DEGRADED"))
    assert [(f.check, f.status) for f in standing(found)] == [("nvlink.imex.settling", Status.UNKNOWN)]


def test_no_right_to_ask_says_nothing_of_the_daemon() -> None:
    refused = CommandResult("imex-domain", 126, "", "ndctl: no right to run this as root: a password is required")
    assert CHECK.judge_rack is not None
    (bad,) = CHECK.judge_rack(view([answer(NODES[0], {"imex-domain": refused})]), GB300)
    assert bad.status is Status.UNKNOWN and bad.action is Action.FIX_IMAGE and "sudo" in bad.cause


def lists(changed: dict[int, str | CommandResult], nodes: list[Node] = NODES) -> list[Finding]:
    usual = "".join(f"{one.address}\n" for one in nodes)
    given = [
        answer(one, {"imex-node-list": changed.get(number, usual), "identity": identity(one)})
        for number, one in enumerate(nodes, 1)
    ]
    assert LIST.judge_rack is not None
    return list(LIST.judge_rack(view(given), GB300))


def test_one_list_passes_and_another_is_named_with_its_difference() -> None:
    assert [f.status for f in lists({})] == [Status.PASS]
    (bad,) = lists({4: "".join(f"{host}\n" for host in HOSTS[:17])})
    assert (bad.node, bad.status) == ("rack01-n04", Status.FAIL) and f"lacks {HOSTS[17]}" in bad.message


def test_a_remark_more_is_a_warning() -> None:
    (bad,) = lists({4: "# written by hand\n" + "".join(f"{host}\n" for host in HOSTS)})
    assert (bad.node, bad.status) == ("rack01-n04", Status.WARN)


def test_half_and_half_is_a_split_of_the_rack() -> None:
    other = "".join(f"{host}\n" for host in reversed(HOSTS))
    (bad,) = lists(dict.fromkeys(range(1, 10), other))
    assert (bad.check, bad.node, bad.status) == ("nvlink.imex-list.split", "", Status.FAIL)


@pytest.mark.parametrize(
    ("said", "status"),
    [("cat: /etc/nvidia-imex/nodes_config.cfg: No such file or directory", Status.FAIL),
     ("cat: /etc/nvidia-imex/nodes_config.cfg: Permission denied", Status.UNKNOWN)],
)  # fmt: skip
def test_a_list_that_is_not_there_fails_and_one_that_may_not_be_read_is_unknown(said: str, status: Status) -> None:
    found = lists({6: result("imex-node-list", "", said, 1)})
    assert [(f.node, f.status) for f in found] == [("rack01-n06", status)]


def test_a_list_of_names_is_only_counted() -> None:
    names = "".join(f"gpu{number:02d}\n" for number in range(1, 19))
    assert [f.status for f in lists(dict.fromkeys(range(1, 19), names))] == [Status.PASS]
    (bad,) = lists(dict.fromkeys(range(1, 19), "gpu01\ngpu02\n"))
    assert (bad.check, bad.node) == ("nvlink.imex-list.absent", "")


def test_a_node_of_the_rack_that_the_list_leaves_out_is_told() -> None:
    found = lists(dict.fromkeys(range(1, 19), "".join(f"{host}\n" for host in [*HOSTS[:17], "10.9.9.9"])))
    assert [f.check for f in found] == ["nvlink.imex-list.absent"] and "rack01-n18" in found[0].message
    assert blamed(found) == set()


def test_a_vm_that_never_came_is_missing_from_no_list() -> None:
    """Azure gave it no address, so nobody could have written it down."""
    never = NodeAnswer(Node("rack01-n19", "rack01"), Outcome(OutcomeKind.UNREACHABLE, "the node has no address"))
    texts = {"imex-domain": imex_json(HOSTS), "imex-node-list": "".join(f"{host}\n" for host in HOSTS)}
    here = [answer(one, {**texts, "identity": identity(one)}) for one in NODES]
    for check in (CHECK, LIST):
        assert check.judge_rack is not None
        found = check.judge_rack(view([*here, never]), GB300)
        assert found and [one.check for one in found if one.status is Status.FAIL] == []
