"""dcgmi diag, health and nvlink: real outputs, and tables built to DCGM's own layout."""

from __future__ import annotations

import json

import pytest

from ndctl.checks.judge import judge_text
from ndctl.model.findings import Judgement
from ndctl.model.status import Action, Status
from ndctl.profiles import load
from tests.checks.captures import capture

EDGE = "+---------------------------+------------------------------------------------+\n"
HEAD = (
    "Successfully ran diagnostic for group.\n" + EDGE
    + "| Diagnostic                | Result                                         |\n"
    + "+===========================+================================================+\n"
    + "|-----  Metadata  ----------+------------------------------------------------|\n"
    + "| DCGM Version              | 4.2.3                                          |\n"
    + "| Driver Version Detected   | 580.105.08                                     |\n"
)  # fmt: skip


def cell(name: str, text: str) -> str:
    """One line, or as many as DCGM makes of a text: 45 characters each."""
    parts = [text[i : i + 45] for i in range(0, len(text), 45)] or [""]
    return "".join(f"| {name if i == 0 else '':<25} | {part:<46} |\n" for i, part in enumerate(parts))


def table(*rows: str) -> str:
    return f"{HEAD}|-----  Deployment  --------+{'-' * 48}|\n{''.join(rows)}{EDGE}"


def texts(judgement: Judgement) -> str:
    return " ".join(f"{f.message} {f.cause}" for f in judgement.findings)


@pytest.mark.parametrize(
    ("tool", "number", "status", "words"),
    [
        ("dcgmi-diag", "01", "fail", "GPU 3 has uncorrectable memory errors and row remappings are pending"),
        ("dcgmi-diag", "03", "fail", "currently down Run a field diagnostic on the GPU., GPU 0GPU 0's NvLink link 1"),
        ("dcgmi-diag", "03", "fail", "expected where GPUs have no NVLink bridge"),
        ("dcgmi-diag", "05", "pass", "9 of 9 tests passed"),
        ("dcgmi-diag", "08", "unknown", "no fault of a GPU"),
        ("dcgmi-health", "04", "warn", "no IMEX domain is active on an idle node"),
        ("dcgmi-nvlink", "02", "fail", "all 18 links down"),
    ],
)
def test_capture(tool: str, number: str, status: str, words: str) -> None:
    for name in (tool, "auto"):
        judgement = judge_text(name, capture(tool, number))
        assert (judgement.tool, judgement.status) == (tool, status)
        assert words in texts(judgement)


def test_table_facts() -> None:
    text = table(
        cell("software", "Pass"), cell("", "GPU0: Pass"), cell("", "GPU1: Pass"),
        cell("memory", "Fail"), cell("", "GPU0: Pass"), cell("", "GPU1: Fail"),
        cell("Warning: GPU1", "GPU 1 has an uncontained error. Drain the GPU and reset it or reboot the node."),
        cell("nvlink", "Skip - All"),
    )  # fmt: skip
    judgement = judge_text("dcgmi-diag", text)
    assert [(test["name"], test["status"]) for test in judgement.facts["tests"]] == [
        ("software", "pass"), ("memory", "fail"), ("nvlink", "skip"),
    ]  # fmt: skip
    (message,) = judgement.facts["tests"][1]["messages"]
    assert message["text"] == "GPU 1 has an uncontained error. Drain the GPU and reset it or reboot the node."
    assert message["entity"] == "GPU1"
    assert judgement.status is Status.FAIL
    fault = judgement.findings[0]
    assert fault.subject == "memory GPU1"
    assert fault.action is Action.REPLACE_AND_REPORT
    assert judgement.facts["dcgm_version"] == "4.2.3"


def test_pass_warn_and_nothing_but_skips() -> None:
    passing = table(cell("software", "Pass"), cell("pcie", "Pass - All"))
    assert judge_text("dcgmi-diag", passing).status is Status.PASS
    assert judge_text("dcgmi-diag", passing.rstrip()[: -len(EDGE)]).status is Status.UNKNOWN
    assert judge_text("dcgmi-diag", table(cell("Persistence Mode", "Warn"))).status is Status.WARN
    assert judge_text("dcgmi-diag", table(cell("nvlink", "Skip - All"))).status is Status.UNKNOWN


def test_a_setting_of_the_host_is_not_blamed_on_the_gpu() -> None:
    text = table(cell("Persistence Mode", "Fail"), cell("Warning", "Persistence mode for GPU 0 is disabled."))
    judgement = judge_text("dcgmi-diag", text)
    assert judgement.findings[0].action is Action.FIX_IMAGE


def diagnostic(status: str, **more: object) -> dict[str, object]:
    result = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 2, "status": status, **more}
    test = {"name": "memory", "results": [result], "test_summary": {"status": status}}
    return {
        "DCGM Diagnostic": {
            "metadata": {"version": "4.2.3"},
            "test_categories": [{"category": "Hardware", "tests": [test]}],
        }
    }


def test_json_of_version_4() -> None:
    warning = {"error_category": 10, "error_id": 85, "error_severity": 4, "warning": "GPU 2 has a pending row remap."}
    judgement = judge_text("dcgmi-diag", json.dumps(diagnostic("Fail", warnings=[warning]), indent=3))
    assert judgement.status is Status.FAIL
    (test,) = judgement.facts["tests"]
    assert (test["name"], test["status"], test["entities"]) == ("memory", "fail", {"GPU2": "fail"})
    assert test["messages"][0]["code"] == 85
    assert judgement.findings[0].action is Action.RESET_GPU


def test_json_cut_off_is_unknown() -> None:
    text = json.dumps(diagnostic("Pass"))
    assert judge_text("dcgmi-diag", text).status is Status.PASS
    for cut in range(1, len(text), 7):
        assert judge_text("dcgmi-diag", text[:cut]).status is not Status.PASS


def test_iterations_are_all_read() -> None:
    many = {"Overall Result": "Fail", "iterations": [diagnostic("Pass"), diagnostic("Fail")]}
    judgement = judge_text("dcgmi-diag", json.dumps(many))
    assert [test["status"] for test in judgement.facts["tests"]] == ["pass", "fail"]
    assert judgement.status is Status.FAIL


@pytest.mark.parametrize(("links", "status"), [("U", "pass"), ("D", "fail"), ("X", "warn")])
def test_nvlink_states(links: str, status: str) -> None:
    lines = "".join(f"    gpuId {i}:\n        {' '.join(['U'] * 17 + [links])}\n" for i in range(4))
    text = f"GPUs:\n{lines}NvSwitches:\n    No NvSwitches found.\n\nKey: Up=U, Down=D, Disabled=X, Not Supported=_\n"
    judgement = judge_text("dcgmi-nvlink", text)
    assert judgement.status == status
    assert judgement.facts["gpus"][3]["links"][17]["link"] == 17
    assert judge_text("dcgmi-nvlink", text.partition("Key")[0]).status is not Status.PASS


def test_twelve_links_are_healthy_unless_more_are_promised() -> None:
    text = f"GPUs:\n    gpuId 0:\n        {' '.join('U' * 12)} _ _ _ _ _ _\nNvSwitches:\n\nKey: Up=U, Down=D\n"
    assert judge_text("dcgmi-nvlink", text).status is Status.PASS
    judgement = judge_text("dcgmi-nvlink", text, load("gb300"))
    assert judgement.status is Status.FAIL
    assert "12 links up" in texts(judgement)


@pytest.mark.parametrize(("word", "status"), [("Healthy", "pass"), ("Warning", "warn"), ("Failure", "fail")])
def test_health(word: str, status: str) -> None:
    rows = f"| Overall Health            | {word:<56} |\n"
    if word != "Healthy":
        rows += f"| GPU                       | {'':<56} |\n| -> 0                      | {word:<56} |\n"
        rows += f"|    -> NVLINK system       | {word:<56} |\n|                           | {'link 3 is down':<56} |\n"
    edge = f"+{'-' * 27}+{'-' * 58}+\n"
    judgement = judge_text("dcgmi-health", f"{edge}| Health Monitor Report{' ' * 64}|\n{edge}{rows}{edge}")
    assert judgement.status == status
    if word != "Healthy":
        assert "link 3 is down" in texts(judgement)


def test_health_that_is_not_watched_is_unknown() -> None:
    assert (
        judge_text("dcgmi-health", "Error: Health watches not enabled. Please enable watches. \n").status == "unknown"
    )
