"""ndctl judge ubergemm: a figure against the profile's floor, Azure's table, and texts that say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ndctl.checks.judge import judge_text
from ndctl.profiles import load

TABLE = Path("tests/captures/ubergemm/01-azure-gpu-test-readme.csv").read_text()


@pytest.mark.parametrize(("gflops", "status"), [("1.85e+06", "pass"), ("1.76e+06", "warn"), ("1.5e+06", "fail")])
def test_a_figure_is_held_against_the_floor(gflops: str, status: str) -> None:
    for tool in ("ubergemm", "auto"):
        judged = judge_text(tool, f"starting....\nGFlops:{gflops}\n", load("gb300"))
        assert (judged.tool, judged.status) == ("ubergemm", status)
        assert "Azure SKU performance baseline" in judged.findings[0].source


def test_azures_table_is_good_and_one_slow_gpu_is_named() -> None:
    assert judge_text("auto", TABLE, load("gb300")).status == "pass"
    judged = judge_text("auto", TABLE.replace("1834644", "1650000"), load("gb300"))
    assert judged.status == "fail"
    assert [f.subject for f in judged.findings if f.status == "fail"] == ["ccw-gpu-10 GPU 3"]


@pytest.mark.parametrize(
    "text", ["", "tuning\nGFlops:9e+05\n", "starting....\n", "CUDA_ERROR_NO_DEVICE\n", TABLE.replace("1834644", "0")]
)
def test_what_says_nothing_is_no_pass(text: str) -> None:
    assert judge_text("ubergemm", text, load("gb300")).status == "unknown"


def test_a_figure_beside_an_error_is_no_pass() -> None:
    text = "starting....\nGFlops:1.85e+06\nCUDA_ERROR_ECC_UNCORRECTABLE\n"
    assert judge_text("ubergemm", text, load("gb300")).status == "unknown"
