"""ubergemm's output: the steady part alone counts; torn, cut and foreign texts give no figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndctl.parse.ubergemm import parse

TABLE = Path("tests/captures/ubergemm/01-azure-gpu-test-readme.csv")
RUN = "tuning\nGFlops:9.1e+05\nstarting....\nGFlops:1.7933e+06\nGFlops:1.80e+06 GFlops\n"


def test_only_what_comes_after_the_tuning_counts() -> None:
    facts = parse(RUN)
    assert facts.tflops == pytest.approx(1796.65)
    assert (facts.figures, facts.tuning, facts.lowest) == ((1793.3, 1800.0), 1, 1793.3)


def test_without_the_steady_part_there_is_no_figure() -> None:
    facts = parse("GFlops:9.1e+05\nGFlops:9.2e+05\n")
    assert facts.tflops is None and "starting" in facts.problems[0]


def test_a_second_start_is_another_run() -> None:
    assert parse(RUN + "starting....\nGFlops:1.0e+06\n").tflops == 1000.0


def test_azures_table_gives_each_gpu_of_each_node() -> None:
    facts = parse(TABLE.read_text())
    assert facts.tables["ccw-gpu-9"] == (1823.766, 1874.87, 1857.083, 1869.878)
    assert set(facts.tables) == {"ccw-gpu-9", "ccw-gpu-10"} and facts.tflops is None


def test_a_number_that_is_cut_at_the_end_of_the_text_is_not_taken() -> None:
    facts = parse("starting....\nGFlops:1.79e+06\nGFlops:1.7")
    assert facts.figures == (1790.0,) and "cut" in facts.problems[0]


@pytest.mark.parametrize("printed", ["nan", "inf", "N/A", "1e+300", "-4.0", "1.7933e+06e+06", ""])
def test_no_number_is_no_figure(printed: str) -> None:
    assert parse(f"starting....\nGFlops:{printed}\n").tflops is None


@pytest.mark.parametrize(
    "said",
    ["CUDA_ERROR_INVALID_DEVICE: invalid device ordinal", "CUBLAS_STATUS_ALLOC_FAILED", "sh: 1: ubergemm: not found"],
)
def test_errors_are_kept(said: str) -> None:
    assert parse("starting....\n", said).errors == (said,)


def test_crlf_and_colours_change_nothing() -> None:
    assert parse(RUN.replace("\n", "\r\n")).tflops == parse(RUN).tflops
    assert parse(RUN.replace("GFlops", "\x1b[32mGFlops\x1b[0m")).figures == (1793.3, 1800.0)


@given(st.integers(0, len(RUN)))
def test_cut_anywhere_it_never_claims_another_rate(end: int) -> None:
    facts = parse(RUN[:end])
    assert facts.tflops is None or 1700 < facts.tflops < 1900


@settings(max_examples=200)
@given(st.text(max_size=400))
def test_any_text_is_survived(text: str) -> None:
    parse(text)
    parse("starting....\nGFlops:" + text)
