"""An answer that was cut is told, also where what is left of it looks healthy."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ndctl.checks.registry import catalogue
from ndctl.model.findings import Run
from ndctl.model.status import Status, Verdict
from ndctl.report.json_text import run_json
from tests.checks.catalogue.rack_texts import GB300, answer, healthy, judged, node, standing

NODES = [node(number) for number in range(1, 19)]
CHECKS = tuple(check for check in catalogue() if check.applies(GB300))
COMMANDS = {command.id: command for check in CHECKS for command in check.commands}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_whose_answer_was_cut_makes_its_node_unknown(command: str) -> None:
    texts = healthy(NODES)
    answers = [answer(one, texts[one]) for one in NODES]
    told = answers[3].results.get(command)
    if told is None:
        pytest.skip("no node of the healthy rack is asked this")
    results = {**answers[3].results, command: replace(told, truncated=True)}
    answers[3] = replace(answers[3], results=results)
    rack = judged(answers, CHECKS)
    assert rack.verdict is Verdict.INCOMPLETE
    (finding,) = standing(rack.findings)
    assert (finding.check, finding.node, finding.subject) == ("host.answers.cut", NODES[3].name, command)
    assert finding.status is Status.UNKNOWN
    assert f"{COMMANDS[command].cap_bytes:,} bytes" in finding.message
    assert NODES[3].name not in rack.usable_nodes


def test_the_mark_arrives_in_the_json() -> None:
    texts = healthy(NODES)
    answers = [answer(one, texts[one]) for one in NODES]
    log = answers[0].results["kernel-log"]
    answers[0] = replace(answers[0], results={**answers[0].results, "kernel-log": replace(log, truncated=True)})
    rack = judged(answers, CHECKS)
    run = Run(
        id="r", started="2026-12-02T00:00:00Z", finished="2026-12-02T00:00:01Z", level="quick",
        inventories=(), racks=(rack,), exit_code=8,
    )  # fmt: skip
    told = json.loads(run_json(run))["racks"][0]["findings"]
    (cut,) = [one for one in told if one["check"] == "host.answers.cut"]
    assert (cut["status"], cut["evidence"]) == ("unknown", f"{NODES[0].name}/kernel-log")
    explained = [one["check"] for one in told if one["status"] == "unknown" and one["caused_by"]]
    assert "gpu.xid" in explained
