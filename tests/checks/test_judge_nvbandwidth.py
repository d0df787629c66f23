"""nvbandwidth: real outputs, and what each is good for."""

from __future__ import annotations

import json

import pytest

from ndctl.checks.judge import judge_text
from ndctl.model.findings import Judgement
from ndctl.model.status import Status
from ndctl.profiles import load
from tests.checks.captures import all_captures, capture

OWED = {
    "01": ("unknown", "not in one NVLink domain"),
    "02": ("fail", "IMEX channel or daemon missing"),
    "03": ("pass", "tests"),
    "04": ("pass", "device_to_device_memcpy_read_ce sum 9222.82"),
    "05": ("warn", "closing note is missing"),
    "06": ("unknown", "does not apply"),
    "07": ("fail", "IMEX channel or daemon missing"),
    "08": ("unknown", "cut off in host_to_device_bidirectional_memcpy_ce"),
    "09": ("warn", "host to device is slow: 35.2 GB/s to the devices, 52.8 GB/s back"),
    "10": ("pass", "nothing about NVLink"),
    "11": ("unknown", "cut off"),
}


def texts(judgement: Judgement) -> str:
    return " ".join(f"{f.message} {f.cause}" for f in judgement.findings)


@pytest.mark.parametrize("number", sorted(OWED))
def test_capture(number: str) -> None:
    status, words = OWED[number]
    for tool in ("nvbandwidth", "auto"):
        judgement = judge_text(tool, capture("nvbandwidth", number))
        assert (judgement.tool, judgement.status) == ("nvbandwidth", status), judgement.findings
        assert words in texts(judgement)


def test_every_capture_is_owed_something() -> None:
    assert {file.name[:2] for file in all_captures("nvbandwidth")} == set(OWED)


def test_matrix_facts() -> None:
    (test,) = judge_text("nvbandwidth", capture("nvbandwidth", "05")).facts["tests"]
    assert (test["name"], test["status"], test["sum"]) == ("device_to_device_memcpy_read_ce", "passed", 715.53)
    assert test["values"][0] == [None, 26.34, 26.35, 21.95, 22.64, 21.8]
    assert len(test["values"]) == 6


def test_sum_lines_alone_and_their_units() -> None:
    tests = {test["name"]: test for test in judge_text("nvbandwidth", capture("nvbandwidth", "04")).facts["tests"]}
    assert tests["device_to_device_memcpy_read_ce"]["sum"] == 9222.82
    assert tests["host_device_latency_sm"]["unit"] == "ns"


def test_tables_without_sums() -> None:
    tests = judge_text("nvbandwidth", capture("nvbandwidth", "09")).facts["tests"]
    assert [test["name"] for test in tests] == ["host_to_device_memcpy_sm", "device_to_host_memcpy_sm"]
    assert tests[0]["values"] == [[35.19, 35.25, 35.3, 35.03, 35.25, 35.32, 35.39, 35.06]]


def matrix(pair: float, odd: float | None = None) -> str:
    rows = [[pair if i != j else None for j in range(4)] for i in range(4)]
    if odd is not None:
        rows[1][2] = odd
    total = sum(cell for row in rows for cell in row if cell)
    body = "\n".join(f" {i}" + "".join(f"{cell if cell else 'N/A':>10}" for cell in row) for i, row in enumerate(rows))
    return (
        "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n"
        f"           0         1         2         3\n{body}\n\nSUM device_to_device_memcpy_read_ce {total:.2f}\n"
    )


def test_a_slow_pair_is_named() -> None:
    assert judge_text("nvbandwidth", matrix(768.0)).status is Status.PASS
    judgement = judge_text("nvbandwidth", matrix(768.0, 48.5))
    assert judgement.status is Status.WARN
    assert "1-2 48.5" in texts(judgement)


def test_pcie_speed_fails_a_platform_with_nvlink() -> None:
    profile = load("gb300")
    assert profile.nvlink.device_to_device_gb_per_s is not None
    assert judge_text("nvbandwidth", matrix(profile.nvlink.device_to_device_gb_per_s.value), profile).status == "pass"
    judgement = judge_text("nvbandwidth", capture("nvbandwidth", "05"), profile)
    assert judgement.status is Status.FAIL
    assert "far below" in texts(judgement)


def test_edited_cells_are_told() -> None:
    text = matrix(768.0).replace("768.0", "868.0", 3)
    assert "add up to" in texts(judge_text("nvbandwidth", text))


def report(**test: object) -> str:
    case = {
        "name": "device_to_device_memcpy_read_ce", "status": "Passed", "sum": 1536.0,
        "bandwidth_description": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
        "bandwidth_matrix": [["N/A", "768"], ["768", "N/A"]], **test,
    }  # fmt: skip
    top = {"version": "v0.8", "git_version": "v0.8", "Driver Version": "580.105.08", "testcases": [case]}
    return json.dumps({"nvbandwidth": top}, indent=1)


def test_json() -> None:
    judgement = judge_text("nvbandwidth", report())
    assert judgement.status is Status.PASS
    (test,) = judgement.facts["tests"]
    assert (test["status"], test["values"], test["sum"]) == ("passed", [[None, 768.0], [768.0, None]], 1536.0)
    assert judge_text("nvbandwidth", report()[:-20]).status is Status.UNKNOWN


@pytest.mark.parametrize("status", ["Waived", "Error", "Not Found"])
def test_json_without_a_result_is_unknown(status: str) -> None:
    text = report(status=status, bandwidth_matrix=[], sum=None)
    assert judge_text("nvbandwidth", text).status is Status.UNKNOWN
