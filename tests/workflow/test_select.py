"""Which racks and nodes a command means; what does not exist is said, never left out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.findings import Finding, NodeResult, RackResult, Run
from ndctl.model.places import Cluster, Node, Rack, node_name, rack_name
from ndctl.model.status import Status, Verdict
from ndctl.report.fold import node_set
from ndctl.workflow.select import Selection, nothing_selected, parse_nodes, parse_numbers, select, selection_of


def rack(number: int, nodes: int = 18, expected: int = 18) -> Rack:
    made = tuple(Node(node_name(number, place), rack_name(number)) for place in range(1, nodes + 1))
    return Rack(rack_name(number), number, expected, made)


LAB = Cluster("lab", (rack(1), rack(2, nodes=17), rack(100)))


def names(selection: Selection, run: Run | None = None, cluster: Cluster = LAB) -> str:
    return node_set(node.name for node in select(cluster, selection, last=lambda _: run).cluster.nodes)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1", {1}), ("1,3-5", {1, 3, 4, 5}), (" 2 , 2-3 ", {2, 3}), ("100", {100})],
)
def test_numbers_and_ranges(text: str, numbers: set[int]) -> None:
    assert parse_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", ",", "3-1", "a", "1-", "-1", "1;2", "1-999999", "²"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(NdctlError) as refused:
        parse_numbers(text)
    assert refused.value.exit_code is ExitCode.USAGE and refused.value.hint


@pytest.mark.parametrize(
    "text",
    ["", "rack01-n[01", "rack01-n[1-9999999]", "@all:x[", "rack01-n01!rack01-n01", "@broken", "@", "@*", "rack[1-a]"],
)
def test_what_is_no_node_set_is_refused_before_anything_is_asked(text: str) -> None:
    for option in ("nodes", "exclude"):
        with pytest.raises(NdctlError) as refused:
            selection_of(**{option: text})
        assert refused.value.exit_code is ExitCode.USAGE


def test_ranges_beyond_rack99_are_written_in_two_parts() -> None:
    with pytest.raises(NdctlError) as refused:
        selection_of(nodes="rack[01-100]-n01")
    assert "rack[01-99,100-120]" in refused.value.hint
    assert names(selection_of(nodes="rack[01-02,100]-n01")) == "rack[01-02,100]-n01"


def test_groups_of_this_hosts_clustershell_are_never_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its configuration may name any command to be run."""
    proof = tmp_path / "ran"
    (tmp_path / "clustershell").mkdir()
    (tmp_path / "clustershell" / "groups.conf").write_text(
        f"[Main]\ndefault: mine\n[mine]\nmap: touch {proof}; echo rack01-n01\nall: touch {proof}; echo rack01-n01\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(tmp_path / "clustershell"))
    for text in ("@mine", "@mine:all", "@all", "@failed", "rack*"):
        try:
            parse_nodes(text, {"all": ["rack02-n01"], "failed": []})
        except NdctlError:
            continue
    assert not proof.exists()


def test_without_a_choice_all_is_meant() -> None:
    chosen = select(LAB, Selection())
    assert (chosen.cluster, chosen.of) == (LAB, 53)


def test_a_rack_keeps_its_expected_nodes() -> None:
    (chosen,) = select(LAB, selection_of("2")).cluster.racks
    assert (chosen.expected_nodes, len(chosen.nodes)) == (18, 17)


def test_of_chosen_nodes_only_those_are_expected() -> None:
    chosen = select(LAB, selection_of(nodes="rack01-n[03-04],rack100-n01")).cluster.racks
    assert [(one.name, one.expected_nodes, len(one.nodes)) for one in chosen] == [("rack01", 2, 2), ("rack100", 1, 1)]


def test_a_planned_node_that_is_not_there_is_still_expected() -> None:
    chosen = select(LAB, selection_of(nodes="rack[01-02]-n[01-18]"))
    assert [(one.expected_nodes, len(one.nodes)) for one in chosen.cluster.racks] == [(18, 18), (18, 17)]
    assert chosen.absent == ("rack02-n18",) and chosen.line.endswith("not there: rack02-n18")
    alone = select(LAB, selection_of(nodes="rack02-n18")).cluster.racks
    assert [(one.name, one.expected_nodes, one.nodes) for one in alone] == [("rack02", 1, ())]


def test_a_node_beyond_the_plans_count_takes_no_other_nodes_place() -> None:
    """A rack that is whole misses no lower name."""
    odd = Rack("rack03", 3, 2, (Node("rack03-n01", "rack03"), Node("rack03-n03", "rack03")))
    with pytest.raises(NdctlError, match="no node rack03-n02"):
        select(Cluster("lab", (odd,)), selection_of(nodes="rack03-n[01-03]"))


@pytest.mark.parametrize(
    ("racks", "nodes", "exclude", "named"),
    [
        ("1,7", None, None, "rack 7"),
        (None, "rack02-n19", None, "rack02-n19"),
        (None, "rack1-n1", None, "rack1-n1"),
        ("2", "rack01-n03", None, "rack01-n03"),
        (None, None, "rack03-n01", "rack03-n01"),
        (None, "rack01-n[01-99]", None, "rack01-n19, rack01-n20, rack01-n21, rack01-n22, rack01-n23 and 76 more"),
    ],
)
def test_what_is_not_there_is_named(racks: str | None, nodes: str | None, exclude: str | None, named: str) -> None:
    with pytest.raises(NdctlError) as refused:
        select(LAB, selection_of(racks, nodes, exclude))
    assert named in refused.value.message and refused.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("selection", "nodes"),
    [
        (selection_of(nodes="rack[01-02]-n[01-02]"), "rack[01-02]-n[01-02]"),
        (selection_of(nodes="rack01-n[01-05]!rack01-n03"), "rack01-n[01-02,04-05]"),
        (selection_of(nodes="rack01-n[01-05]&rack01-n[04-09]"), "rack01-n[04-05]"),
        (selection_of(nodes="rack01-n[01-02]^rack01-n[02-03]"), "rack01-n[01,03]"),
        (selection_of(nodes="rack*-n07"), "rack[01-02,100]-n07"),
        (selection_of(nodes="@all!rack[01-02]-n[01-18]"), "rack100-n[01-18]"),
        (selection_of(nodes="@all&rack01-n[17-18]"), "rack01-n[17-18]"),
        (selection_of(rack="2", nodes="*-n01"), "rack02-n01"),
        (selection_of(rack="1", exclude="rack01-n[02-18]"), "rack01-n01"),
        (selection_of(rack="1-2", exclude="*-n[02-18]"), "rack[01-02]-n01"),
        (selection_of(exclude="@all"), ""),
    ],
)
def test_sets_operators_and_wildcards(selection: Selection, nodes: str) -> None:
    assert names(selection) == nodes


def test_what_is_excluded_is_not_expected() -> None:
    chosen = select(LAB, selection_of(rack="2", exclude="rack02-n[17-18]"))
    (only,) = chosen.cluster.racks
    assert (only.expected_nodes, len(only.nodes), chosen.absent) == (16, 16, ())


def test_a_rack_of_which_all_is_excluded_is_left_out() -> None:
    chosen = select(LAB, selection_of(exclude="rack01-n[01-18]"))
    assert [one.name for one in chosen.cluster.racks] == ["rack02", "rack100"]


def test_a_draw_is_shown_and_can_be_made_again() -> None:
    picked = [select(LAB, selection_of(rack="1", pick=4), chance=random.Random(7)) for _ in range(2)]
    assert picked[0] == picked[1]
    assert picked[0].line == "4 of 53 nodes: " + node_set(node.name for node in picked[0].cluster.nodes)
    assert len({names(selection_of(pick=1)) for _ in range(200)}) > 20
    assert names(selection_of(nodes="rack01-n[01-03]", pick=99)) == "rack01-n[01-03]"


def finding(status: Status, subject: str = "", node: str = "", caused_by: str = "") -> Finding:
    return Finding(check="x", status=status, subject=subject, message="", node=node, caused_by=caused_by)


def result(
    number: int,
    verdict: Verdict,
    *findings: Finding,
    unknown: tuple[int, ...] = (),
    listed: int = 18,
    expected: int = 18,
    cluster: str = "lab",
) -> RackResult:
    nodes = tuple(
        NodeResult(node_name(number, place), Status.UNKNOWN if place in unknown else Status.PASS)
        for place in range(1, listed + 1)
    )
    return RackResult(rack_name(number), cluster, verdict, nodes, findings, expected_nodes=expected)


def run_of(*racks: RackResult) -> Run:
    return Run("2026-12-02T03-20", "", "", "quick", (), racks, 0)


FAIL, UNKNOWN, WARN = Status.FAIL, Status.UNKNOWN, Status.WARN


@pytest.mark.parametrize(
    ("group", "racks", "nodes"),
    [
        ("@failed", [result(1, Verdict.REJECTED, finding(FAIL, "GPU 2", "rack01-n11"))], "rack01-n11"),
        # explained by another part: not of its own
        (
            "@failed",
            [
                result(
                    1,
                    Verdict.REJECTED,
                    finding(FAIL, "GPU 2", "rack01-n11"),
                    finding(FAIL, "NCCL", "rack01-n12", caused_by="x@rack01-n11"),
                    finding(WARN, "NIC", "rack01-n13"),
                )
            ],
            "rack01-n11",
        ),
        ("@failed", [result(1, Verdict.REJECTED, finding(FAIL, "rack01"))], "rack01-n[01-18]"),
        ("@failed", [result(1, Verdict.REJECTED, finding(FAIL, "rack01-n02 - rack01-n05"))], "rack01-n[02,05]"),
        (
            "@failed",
            [result(1, Verdict.REJECTED, finding(FAIL, "rack01"), finding(FAIL, "GPU 0", "rack01-n02"))],
            "rack01-n02",
        ),
        # warnings and what other racks or clusters have are none of it
        ("@failed", [result(1, Verdict.DEGRADED, finding(WARN, "x", "rack01-n01"))], ""),
        ("@failed", [result(1, Verdict.REJECTED, finding(FAIL, "x", "rack01-n01"), cluster="other")], ""),
        ("@failed", [result(1, Verdict.INCOMPLETE, unknown=(1,))], ""),
        ("@incomplete", [result(1, Verdict.INCOMPLETE, unknown=(1, 5))], "rack01-n[01,05]"),
        ("@incomplete", [result(1, Verdict.REJECTED, finding(FAIL, "x", "rack01-n02"), unknown=(1,))], ""),
        # a required check skipped, and every node answered: the rack is incomplete as a whole
        ("@incomplete", [result(1, Verdict.INCOMPLETE)], "rack01-n[01-18]"),
        # was missing then, is there now
        ("@incomplete", [result(1, Verdict.INCOMPLETE, listed=17)], "rack01-n18"),
        # a cluster that could not be asked at all
        ("@incomplete", [result(1, Verdict.INCOMPLETE, listed=0)], "rack01-n[01-18]"),
        # a run of one chosen node says nothing of the seventeen others
        ("@incomplete", [result(1, Verdict.INCOMPLETE, unknown=(1,), listed=1, expected=1)], "rack01-n01"),
        (
            "@failed,@incomplete",
            [
                result(1, Verdict.REJECTED, finding(FAIL, "x", "rack01-n02")),
                result(2, Verdict.INCOMPLETE, unknown=(3,)),
            ],
            "rack01-n02,rack02-n03",
        ),
        ("@all!@failed", [result(1, Verdict.REJECTED, finding(FAIL, "rack01"))], "rack02-n[01-17],rack100-n[01-18]"),
    ],
)
def test_groups_of_the_last_run(group: str, racks: list[RackResult], nodes: str) -> None:
    assert names(selection_of(nodes=group), run_of(*racks)) == nodes


def test_a_group_can_be_left_out() -> None:
    run = run_of(result(1, Verdict.REJECTED, finding(FAIL, "GPU 2", "rack01-n11")))
    assert names(selection_of(rack="1", exclude="@failed"), run) == "rack01-n[01-10,12-18]"
    assert names(selection_of(nodes="rack01-n[10-12]!@failed"), run) == "rack01-n[10,12]"


def test_it_is_said_where_a_group_is_from_and_what_is_gone() -> None:
    gone = run_of(
        result(1, Verdict.REJECTED, finding(FAIL, "x", "rack01-n11")),
        result(7, Verdict.REJECTED, finding(FAIL, "x", "rack07-n01")),
    )
    chosen = select(LAB, selection_of(nodes="@failed", exclude="@failed&rack01-n12"), last=lambda _: gone)
    assert chosen.notes == ("@failed: 1 node by run 2026-12-02T03-20, and 1 that are no longer there",)
    assert chosen.line == "1 of 53 nodes: rack01-n11"


@pytest.mark.parametrize("option", ["nodes", "exclude"])
def test_without_a_run_a_group_is_refused_with_what_to_do(option: str) -> None:
    with pytest.raises(NdctlError, match="there is none") as refused:
        select(LAB, selection_of(**{option: "@failed"}))
    assert refused.value.exit_code is ExitCode.USAGE and "ndctl validate" in refused.value.hint


def test_a_selection_that_came_to_nothing_is_told() -> None:
    healthy = run_of(result(1, Verdict.ACCEPTED))
    selection = selection_of(nodes="@failed")
    chosen = select(LAB, selection, last=lambda _: healthy)
    assert chosen.cluster.racks == () and chosen.line == "0 of 53 nodes"
    error = nothing_selected(selection, chosen.notes)
    assert error.exit_code is ExitCode.USAGE
    assert error.message == "nothing to do: --nodes @failed leaves no node (@failed: 0 nodes by run 2026-12-02T03-20)"
