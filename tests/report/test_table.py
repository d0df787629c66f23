"""The answer for people: what stands where, what is folded, what is left out and what may be copied."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest
import typer
from hypothesis import given, settings
from typer.main import get_command

from ndctl.cli import runs, validate
from ndctl.model.findings import Finding, RackResult, Run
from ndctl.model.status import Action, Status, Verdict
from ndctl.report.table import as_plain, run_lines
from ndctl.report.words import duration, number
from tests.model import builders
from tests.model.builders import finding, node, rack

ROOT = finding(
    subject="GPU 2 (0018:01:00.0, serial 1650224000123)",
    message="NVLink 8 down",
    value=17,
    unit="links active",
    expected="18 links",
    source="NVIDIA GB300, 2026-04",
    cause="link, cable or switch port",
    action=Action.REPLACE_AND_REPORT,
    evidence="rack07-n11/nvlink-status",
    health_category="Resource.Hpc.Unhealthy.NvLink",
    explains=("XID 145 on 63 GPUs", "NCCL all_reduce 412 GB/s"),
)
NCCL = finding(
    check="nccl.all-reduce", node="", subject="rack07", message="412 GB/s", caused_by="nvlink.links@rack07-n11"
)


def rejected(*findings: Finding, number: int = 7) -> RackResult:
    name = f"rack{number:02d}"
    nodes = tuple(
        node(number, position, status=Status.FAIL, vm_id="5e1f", physical_host="AMS07")
        if position == 11
        else node(number, position)
        for position in range(1, 19)
    )
    usable = tuple(one.name for one in nodes if one.status is Status.PASS)
    return rack(number, name=name, verdict=Verdict.REJECTED, nodes=nodes, usable_nodes=usable, findings=findings)


def text_of(run: Run, *, verbose: bool = False) -> str:
    return as_plain(run_lines(run, verbose=verbose))


def lines_of(*racks: RackResult, exit_code: int = 7, verbose: bool = False) -> list[str]:
    return text_of(builders.run(*racks, exit_code=exit_code), verbose=verbose).splitlines()


def test_the_on_call_question_answered() -> None:
    symbols = [
        finding(
            Status.WARN, check="infiniband.counters", node=f"rack07-n{n:02d}", subject="mlx5_ib1",
            message="symbol_error +214 during this run",
        )
        for n in range(1, 18)
    ]  # fmt: skip
    assert lines_of(rejected(*symbols, NCCL, ROOT)) == [
        "REJECTED    swc-a rack07: 17 of 18 nodes usable   72 GPUs   asked 18, answered 18   4m41s",
        "  fail     rack07-n11  GPU 2 (0018:01:00.0, serial 1650224000123)   NVLink 8 down   root cause",
        "           measured  17 links active, expected 18 links (NVIDIA GB300, 2026-04)",
        "           cause     link, cable or switch port",
        "           explains  XID 145 on 63 GPUs; NCCL all_reduce 412 GB/s",
        "           do        drain, report the host first (below), then: "
        "ndctl repair inventories/swc-a.yaml rack07-n11 --action replace",
        "           report    Resource.Hpc.Unhealthy.NvLink   VM 5e1f, host AMS07: "
        "ndctl report-node inventories/swc-a.yaml rack07-n11 --finding nvlink.links",
        "           see       ndctl report 2026-12-02T03-20-11 --raw rack07-n11/nvlink-status",
        "  warn     rack07-n[01-17]  mlx5_ib1   symbol_error +214 during this run",
        "  1 finding explained by the above and not counted: ndctl -v report 2026-12-02T03-20-11",
        "  GPU 72/72 in rack07",
        "next: ndctl explain nvlink.links   (what it means, false alarms, what to do)",
        "      ndctl report 2026-12-02T03-20-11 -o json   (all findings; their raw text: --raw NODE/COMMAND)   exit 7",
    ]


def test_racks_that_are_fine_take_one_line_each_and_the_count_comes_first() -> None:
    racks = [rejected(ROOT), *(rack(number) for number in (1, 2, 3)), rejected(number=9)]
    assert lines_of(*racks)[:6] == [
        "5 racks: 3 accepted · 2 rejected (rack[07,09])",
        "ACCEPTED    swc-a rack01: 18 of 18 nodes usable   72 GPUs   4m41s",
        "ACCEPTED    swc-a rack02: 18 of 18 nodes usable   72 GPUs   4m41s",
        "ACCEPTED    swc-a rack03: 18 of 18 nodes usable   72 GPUs   4m41s",
        "REJECTED    swc-a rack07: 17 of 18 nodes usable   72 GPUs   asked 18, answered 18   4m41s",
        "  fail     rack07-n11  GPU 2 (0018:01:00.0, serial 1650224000123)   NVLink 8 down   root cause",
    ]


def test_all_well_needs_no_next_step() -> None:
    assert lines_of(rack(1), rack(2), exit_code=0) == [
        "2 racks: 2 accepted",
        "ACCEPTED    swc-a rack01: 18 of 18 nodes usable   72 GPUs   4m41s",
        "ACCEPTED    swc-a rack02: 18 of 18 nodes usable   72 GPUs   4m41s",
    ]
    assert lines_of(rack(), exit_code=0) == [
        "ACCEPTED    swc-a rack07: 18 of 18 nodes usable   72 GPUs   4m41s",
        "  GPU 72/72 in rack07",
    ]


def test_the_worst_racks_come_last_where_a_terminal_shows_them() -> None:
    order = [Verdict.REJECTED, Verdict.ACCEPTED, Verdict.INCOMPLETE, Verdict.DEGRADED]
    told = lines_of(*(rack(number, verdict=verdict) for number, verdict in enumerate(order, 1)))
    heads = [line.split()[0] for line in told if line[0].isupper()]
    assert heads == ["ACCEPTED", "DEGRADED", "INCOMPLETE", "REJECTED"]


def test_clusters_are_told_apart() -> None:
    other = replace(rejected(), cluster="swc-b")
    assert lines_of(rejected(), other, rack(1))[0] == "3 racks: 1 accepted · 2 rejected (swc-a rack07, swc-b rack07)"


def test_nodes_that_did_not_answer_are_one_line_and_are_asked_again_by_name() -> None:
    silent = (3, 4, 5, 9)
    nodes = tuple(
        node(8, n, status=Status.UNKNOWN, outcome="timed-out") if n in silent else node(8, n) for n in range(1, 18)
    )
    found = tuple(
        finding(
            Status.UNKNOWN, check="host.reachable", node=f"rack08-n{n:02d}", subject="SSH",
            message=f"timed-out: 10.40.8.{n}:22 did not answer within 10 s",
        )
        for n in silent
    )  # fmt: skip
    usable = tuple(one.name for one in nodes if one.status is Status.PASS)
    told = lines_of(rack(8, verdict=Verdict.INCOMPLETE, nodes=nodes, findings=found, usable_nodes=usable), exit_code=8)
    assert told[:3] == [
        "INCOMPLETE  swc-a rack08: 13 of 18 nodes usable   72 GPUs   asked 17, answered 13   4m41s",
        "  unknown  1 of 18 nodes is not there",
        "  unknown  rack08-n[03-05,09]  SSH   timed-out: <address>:22 did not answer within 10 s",
    ]
    assert told[-3].startswith(
        "next: ndctl validate inventories/swc-a.yaml --nodes 'rack08-n[03-05,09]' --level quick   ("
    )
    assert told[-1].endswith("exit 8")


def test_a_node_that_nothing_is_said_of_is_not_silently_left_out() -> None:
    nodes = (node(7, 1), node(7, 2, status=Status.UNKNOWN, outcome="not-asked"), node(7, 3, status=Status.UNKNOWN))
    told = lines_of(rack(verdict=Verdict.INCOMPLETE, nodes=nodes, expected_nodes=3))
    assert told[1:3] == [
        "  unknown  rack07-n02   not-asked",
        "  unknown  rack07-n03   unknown, and no finding says why",
    ]


def test_skipped_checks_are_told_with_their_reason() -> None:
    found = (
        finding(Status.SKIP, check="nccl.all-reduce", node="", subject="rack07", message="GPUs are in use"),
        *(finding(Status.SKIP, check="host.ntp", node=f"rack07-n{n:02d}", message="switched off") for n in (1, 2)),
    )
    told = lines_of(rack(verdict=Verdict.INCOMPLETE, findings=found))
    assert told[1:3] == [
        "  skip     host.ntp  rack07-n[01-02]   switched off",
        "  skip     nccl.all-reduce   GPUs are in use",
    ]
    accepted = lines_of(rack(findings=found), exit_code=0)
    assert accepted[0] == "ACCEPTED    swc-a rack07: 18 of 18 nodes usable   72 GPUs   3 checks skipped   4m41s"
    assert "  skip     host.ntp  rack07-n[01-02]   switched off" in lines_of(rack(findings=found), verbose=True)


def test_root_causes_first_then_failures_then_unknown_then_warnings() -> None:
    found = [
        finding(Status.WARN, message="w", node="rack07-n01"),
        finding(Status.UNKNOWN, message="u", node="rack07-n02"),
        finding(Status.FAIL, message="f9", node="rack07-n09"),
        finding(Status.FAIL, message="f10", node="rack07-n10"),
        replace(ROOT, message="root"),
    ]
    told = [
        line.split()[-1] if "root cause" not in line else "root"
        for line in lines_of(rejected(*found))
        if "GPU 2" in line
    ]
    assert told == ["root", "f9", "f10", "u", "w"]


def test_a_flood_of_findings_is_cut_and_says_so() -> None:
    found = [finding(Status.WARN, message=f"counter {n}") for n in range(40)] + [ROOT]
    told = lines_of(rejected(*found))
    assert "  and 29 warn more: ndctl -v report 2026-12-02T03-20-11" in told
    assert sum("counter" in line for line in told) == 11
    assert sum("counter" in line for line in lines_of(rejected(*found), verbose=True)) == 40


def test_verbose_shows_what_a_root_cause_explains() -> None:
    assert not any("412 GB/s" in line and "fail" in line for line in lines_of(rejected(ROOT, NCCL)))
    told = lines_of(rejected(ROOT, NCCL), verbose=True)
    assert "  fail     rack07   412 GB/s" in told
    assert "           because   nvlink.links@rack07-n11" in told


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (Action.WATCH, "watch it: ndctl validate INV --rack 7 --level quick"),
        (Action.RESET_GPU, "drain, then: ndctl repair INV rack07-n11 --action reset-gpu"),
        (Action.RESTART_IMEX, "drain, then: ndctl repair INV rack07-n11 --action restart-imex"),
        (Action.REBOOT, "drain, then: ndctl repair INV rack07-n11 --action reboot"),
        (Action.REIMAGE, "drain, then: ndctl repair INV rack07-n11 --action reimage"),
        (Action.REDEPLOY, "drain, then: ndctl repair INV rack07-n11 --action redeploy"),
        (Action.REPLACE_AND_REPORT, "drain, then: ndctl repair INV rack07-n11 --action replace"),
        (Action.FIX_IMAGE, "mend or change the image that INV names"),
        (Action.FIX_INVENTORY, "mend what differs from the inventory: ndctl inventory show INV"),
        (
            Action.INVESTIGATE,
            "drain, ask again: ndctl validate inventories/swc-a.yaml --rack 7; if it stays, report it",
        ),
    ],
)
def test_what_to_do(action: Action, told: str) -> None:
    (line,) = [one for one in lines_of(rejected(finding(action=action))) if one.startswith("           do ")]
    assert line.split(maxsplit=1)[1] == told.replace("INV", "inventories/swc-a.yaml")


def test_nothing_to_do_is_not_told() -> None:
    assert not any(line.strip().startswith("do ") for line in lines_of(rejected(finding())))


def test_commands_can_be_copied_whatever_the_inventory_is_called() -> None:
    odd = {**builders.INVENTORY, "path": "my racks/it's [1].yaml"}
    found = [finding(node=f"rack07-n{n:02d}", action=Action.REBOOT) for n in (1, 2)]
    text = text_of(builders.run(rejected(*found), inventories=(odd,), exit_code=7))
    command, _, more = text.split("then: ")[1].splitlines()[0].partition("   (")
    assert shlex.split(command) == ["ndctl", "repair", "my racks/it's [1].yaml", "rack07-n01", "--action", "reboot"]
    assert more == "the same for rack07-n02, one node of a rack at a time)"


def test_every_verb_and_option_that_is_named_exists() -> None:
    """A next step that is refused is worse than none."""
    app = typer.Typer()
    runs.register(app)
    validate.register(app)
    program = get_command(app)
    every = [finding(action=action, message=action.value, evidence="rack07-n11/smi") for action in Action]
    silent = node(7, 1, status=Status.UNKNOWN, outcome="refused")
    text = text_of(builders.run(rack(verdict=Verdict.REJECTED, nodes=(silent,), findings=tuple(every)), exit_code=7))
    named = set(re.findall(r"ndctl (?:-v )?(validate|report) ", text))
    assert named == {"validate", "report"}
    for verb_name, options in re.findall(r"ndctl (?:-v )?(validate|report)([^;(\n]*)", text):
        known = {name for one in program.commands[verb_name].params for name in one.opts}  # type: ignore[attr-defined]
        assert {word for word in options.split() if word.startswith("-")} <= known


def test_what_nodes_say_can_not_dress_up_or_break_the_answer() -> None:
    nasty = finding(message="[red]x[/red]\x1b[2J\nACCEPTED rack07", subject="\x1b]0;t\x07GPU", cause="a\tb\u202e")
    told = lines_of(rejected(nasty))
    assert "  fail     rack07-n11  GPU   [red]x[/red] ACCEPTED rack07" in told
    assert "           cause     a b\ufffd" in told


def test_an_interrupted_run_and_one_that_asked_nothing() -> None:
    told = text_of(builders.run(rack(verdict=Verdict.INCOMPLETE), interrupted=True, exit_code=130)).splitlines()
    assert told[0] == "interrupted: this answer holds what was gathered so far"
    assert told[-1].endswith("exit 130")
    assert text_of(builders.run(exit_code=8)).splitlines() == ["no rack was asked", "exit 8"]


@settings(max_examples=80, deadline=None)
@given(builders.runs)
def test_any_run_can_be_told_and_each_time_alike(run: Run) -> None:
    for verbose in (False, True):
        text = text_of(run, verbose=verbose)
        assert text == text_of(run, verbose=verbose)
        assert text.endswith("\n") and "\x1b" not in text
        for one in run.racks:
            assert any(line.startswith(one.verdict.value.upper()) and one.name in line for line in text.splitlines())
        text.encode("utf-8")


@pytest.mark.parametrize(
    ("value", "told"),
    [(17, "17"), (1295, "1,295"), (378.23456789, "378.235"), (0.00012, "0.00012"), (2.0, "2"), (1e20, "1e+20"),
     (True, "yes"), ("4.0", "4.0"), (1234567.0, "1,234,567"), (4294967295, "4,294,967,295")],
)  # fmt: skip
def test_numbers(value: float | str, told: str) -> None:
    assert number(value) == told


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.4, 59.6, 281, 3600)] == ["0s", "1m00s", "4m41s", "60m00s"]
