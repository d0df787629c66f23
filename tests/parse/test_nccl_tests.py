"""The parser of nccl-tests: every way a table is torn in a paste gives the same rows."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ndctl.parse.nccl_tests import parse

CAPTURES = Path(__file__).parent.parent / "captures" / "nccl-tests"
(HEALTHY,) = CAPTURES.glob("29-*")
TEXT = HEALTHY.read_text()
ROWS = parse(TEXT).rows
INFO = "gpu-node-3:66421:66500 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"


def lines_with_rows() -> list[str]:
    return TEXT.splitlines()


def is_row(line: str) -> bool:
    return line.split()[:1] not in ([], ["#"]) and line.split()[0].isdigit()


def test_the_rows_themselves() -> None:
    assert [row.bytes for row in ROWS] == [2**25, 2**26, 2**27, 2**28, 2**29, 2**30]
    last = ROWS[-1]
    assert (last.redop, last.root, last.type) == ("sum", -1, "float")
    assert last.out_of_place is not None
    assert last.in_place is not None
    assert (last.out_of_place.time_us, last.out_of_place.busbw, last.out_of_place.wrong) == (8109.1, 231.72, 0)
    assert last.in_place.algbw == 132.4


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"    {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines()),
        lambda text: "".join(f"0: {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
        lambda text: text.replace("#", ""),
        lambda text: text.replace("  ", " "),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines()),
        lambda text: "".join(f"{line}\n{line}\n" for line in text.splitlines()),
        lambda text: text + text,
        lambda text: "".join(f"{line}\n{INFO}\n" for line in text.splitlines()),
        lambda text: "\ufeff" + text,
    ],
    ids=["crlf", "indented", "mpi-tag", "srun-label", "quoted", "no-hash", "blanks", "nbsp", "ansi", "doubled-lines",
         "doubled-text", "noise", "bom"],
)  # fmt: skip
def test_same_rows_however_pasted(change) -> None:
    facts = parse(change(TEXT))
    assert facts.rows == ROWS
    assert (facts.avg_busbw, facts.out_of_bounds, facts.complete) == (210.99, 0, True)


@pytest.mark.parametrize("width", [56, 80, 90, 96, 99, 104, 110])
def test_rows_a_terminal_wrapped(width: int) -> None:
    wrapped = [
        part
        for line in lines_with_rows()
        for part in ([line[:width], line[width:]] if is_row(line) and len(line) > width else [line])
    ]
    assert parse("\n".join(wrapped)).rows == ROWS


def test_rows_a_mail_program_wrapped() -> None:
    wrapped = [
        part
        for line in lines_with_rows()
        for part in (["   ".join(line.split()[:7]), "  ".join(line.split()[7:])] if is_row(line) else [line])
    ]
    assert parse("\n".join(wrapped)).rows == ROWS


def test_noise_inside_a_row() -> None:
    """The row's front is printed before the measurement, without a newline: NCCL's lines land behind it."""
    torn = [
        part for line in lines_with_rows() for part in ([line[:52] + INFO, INFO, line[52:]] if is_row(line) else [line])
    ]
    facts = parse("\n".join(torn))
    assert facts.rows == ROWS
    assert facts.transport == "P2P/CUMEM"


def test_row_glued_behind_noise() -> None:
    glued = [f"{INFO} {line}" if is_row(line) else line for line in lines_with_rows()]
    assert parse("\n".join(glued)).rows == ROWS


def test_only_in_place() -> None:
    row = f"  1073741824     268435456     float     sum      -1{' ' * 32}   8109.7  132.40  231.70       0"
    (found,) = parse(TEXT[: TEXT.index("    33554432")] + row).rows
    assert found.out_of_place is None
    assert found.in_place is not None
    assert found.in_place.busbw == 231.7


def test_per_iteration_columns_and_time_stamps() -> None:
    head = (
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  "
        "time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%   timestamp\n"
    )
    row = (
        "  1073741824     268435456     float     sum      -1   8109.1  132.41  231.72       3  8000.0  8200.0  8190.0"
        "     1.10   8109.7  132.40  231.70       0  8001.0  8201.0  8191.0     1.20  2026-05-01 10:11:12\n"
    )
    (found,) = parse(head + row).rows
    assert found.out_of_place is not None
    assert found.in_place is not None
    assert (found.out_of_place.wrong, found.in_place.wrong) == (3, 0)
    assert (found.out_of_place.busbw, found.in_place.busbw) == (231.72, 231.7)


def test_cpu_time_and_large_counts() -> None:
    text = TEXT.replace("time", "cputime").replace(
        "8109.1  132.41  231.72      0", "8.1e+03  132.41  231.72  1.23457e+06"
    )
    assert parse(text).rows[-1].out_of_place.wrong == 1234570  # type: ignore[union-attr]


@pytest.mark.parametrize("word", ["nan", "-nan", "inf", "-inf", "1e+400"])
def test_what_is_no_number(word: str) -> None:
    text = TEXT.replace("231.72", word)
    facts = parse(text)
    assert len(facts.rows) == len(ROWS)
    assert facts.rows[-1].out_of_place.busbw is None  # type: ignore[union-attr]
    assert facts.peak_busbw == 231.7


JSON_RUN = {
    "version": 3,
    "start_time": "2026-05-01 10:11:12",
    "args": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "1G", "-e", "1G"],
    "env": ["NCCL_DEBUG=INFO", "SECRET_TOKEN=abc"],
    "nccl_version": 22907,
    "config": {
        "nthreads": 1,
        "ngpus": 1,
        "minimum_bytes": 1073741824,
        "maximum_bytes": 1073741824,
        "step_factor": 2,
        "iterations": 20,
        "validation": 1,
        "devices": [
            {"rank": rank, "group": 0, "pid": 7 + rank, "hostname": f"n{rank // 4}", "device": rank % 4,
             "device_hex": "0008:06:00", "device_info": "NVIDIA GB300"}
            for rank in range(8)
        ],
    },
    "results": [
        {
            "size": 1073741824, "count": 268435456, "type": "float", "redop": "sum", "root": "    -1",
            "out_of_place": {"time": 8109.1, "alg_bw": 132.41, "bus_bw": 231.72, "nwrong": 0.0},
            "in_place": {"time": 8109.7, "alg_bw": 132.40, "bus_bw": 231.70, "nwrong": None},
            "actual_iterations": 20, "experiment_name": "all_reduce",
        }
    ],
    "out_of_bounds": {"count": 0, "okay": "true"},
    "average_bus_bandwidth": {"bandwidth": 231.71, "okay": "unchecked"},
    "errors": [],
    "end_time": "2026-05-01 10:11:19",
}  # fmt: skip


def test_json() -> None:
    facts = parse(json.dumps(JSON_RUN))
    assert (facts.form, facts.collective, facts.ranks, facts.nodes, facts.nccl_version) == (
        "json", "all_reduce", 8, 2, "2.29.7",
    )  # fmt: skip
    assert facts.avg_busbw == 231.71
    assert facts.complete
    assert facts.rows[0].in_place is not None
    assert facts.rows[0].in_place.wrong is None


def test_json_keeps_no_foreign_environment() -> None:
    assert parse(json.dumps(JSON_RUN)).env == {"NCCL_DEBUG": "INFO"}


def test_json_with_bare_nan_behind_noise() -> None:
    text = json.dumps(JSON_RUN).replace("231.72", "nan").replace("132.41", "-inf")
    facts = parse(f"NCCL version 2.29.7\n{INFO}\n{text}\n")
    assert facts.rows[0].out_of_place.busbw is None  # type: ignore[union-attr]
    assert facts.peak_busbw == 231.7
    assert facts.transport == "P2P/CUMEM"


def test_unknown_json_keys_are_told() -> None:
    assert parse(json.dumps({**JSON_RUN, "weather": "fine"})).unknown_fields == ("weather",)


def test_linear_time() -> None:
    """Twice the text costs about twice the time; a quadratic parser would need hours for this."""
    noise = "\n".join(f"{INFO} {number}" for number in range(20_000))
    began = time.process_time()
    facts = parse(f"{TEXT}\n{noise}\n{'[' * 100_000}\n{'9' * 100_000}\n{'a:1:1 [0] ' * 20_000}NCCL INFO x")
    assert facts.rows == ROWS
    assert time.process_time() - began < 20
