"""Real nccl-tests outputs are judged as an expert reads them, and for the expert's reason."""

from __future__ import annotations

import re

import pytest

from ndctl.checks.judge import judge_text
from ndctl.checks.texts.nccl_tests import JUDGE
from ndctl.model.findings import Judgement
from ndctl.model.status import Status
from ndctl.profiles import load
from tests.checks.captures import all_captures, capture

NO_RESULT = ("nccl.no-result", "ends before the results")
UNCHECKED = ("nccl.not-checked", "correctness not checked")
CUT = ("nccl.cut", "cut off")
OWED = {
    "01": ("warn", *UNCHECKED),
    "02": ("warn", *UNCHECKED),
    "03": ("warn", *UNCHECKED),
    "04": ("warn", *UNCHECKED),
    "05": ("pass", "nccl.measured", "peak 188.9 GB/s at 8 GiB"),
    "06": ("pass", "nccl.measured", "peak 335.67"),
    "07": ("warn", *UNCHECKED),
    "08": ("pass", "nccl.measured", "peak 702.91"),
    "09": ("pass", "nccl.measured", "peak 683.52"),
    "10": ("warn", *UNCHECKED),
    "11": ("pass", "nccl.measured", "peak 386.56"),
    "12": ("warn", "nccl.inconsistent", "algbw and busbw do not fit"),
    "13": ("warn", "nccl.one-rank", "no link or network was tested"),
    "14": ("unknown", *CUT),
    "15": ("warn", "nccl.cut", "no closing line"),
    "16": ("pass", "nccl.measured", "over 2 ranks"),
    "17": ("fail", "nccl.nvls-bind", "NVLink fabric is in a bad state"),
    "18": ("unknown", *NO_RESULT),
    "19": ("fail", "nccl.system-error", "communication between nodes failed"),
    "20": ("fail", "nccl.fabric-not-ready", "fabric manager"),
    "21": ("fail", "nccl.fabric-not-ready", "fabric manager"),
    "22": ("unknown", *NO_RESULT),
    "23": ("unknown", *CUT),
    "24": ("unknown", "nccl.fabric", "clique 0x7ffe, health mask 0xaa is healthy"),
    "25": ("unknown", *NO_RESULT),
    "26": ("pass", "nccl.measured", "8 ranks on 1 node"),
    "27": ("unknown", "nccl.launch", "not enough slots"),
    "28": ("unknown", "nccl.launch", "no fault of network or GPU"),
    "29": ("pass", "nccl.measured", "peak 231.72"),
    "30": ("pass", "nccl.measured", "16 ranks on 2 nodes"),
    "31": ("pass", "nccl.measured", "16 ranks on 2 nodes, peak 471.22 GB/s at 16 GiB"),
    "32": ("unknown", "nccl.gpu-busy", "Exclusive_Process"),
    "33": ("unknown", "nccl.separate-jobs", "every process ran alone"),
    "34": ("unknown", "nccl.separate-jobs", "without MPI=1"),
    "35": ("unknown", "nccl.separate-jobs", "2 independent jobs of 8 ranks"),
    "36": ("unknown", "nccl.no-verbs", "TCP sockets"),
    "37": ("fail", "nccl.cuda-error", "not always the culprit"),
    "38": ("fail", "nccl.ib-completion", "local protection error"),
    "39": ("pass", "nccl.measured", "peak 97.54"),
    "40": ("unknown", *CUT),
    "41": ("unknown", *NO_RESULT),
    "42": ("unknown", "nccl.fabric", "0xaa is healthy"),
    "43": ("unknown", "nccl.fabric", "clique 0x2786"),
    "44": ("warn", *UNCHECKED),
    "45": ("unknown", "nccl.topology-file", "not a standard run"),
    "46": ("unknown", *CUT),
    "47": ("pass", "nccl.measured", "peak 42.99 GB/s at 128 MiB"),
    "48": ("pass", "nccl.measured", "peak 0.51"),
    "49": ("pass", "nccl.measured", "peak 4.33"),
    "50": ("unknown", "nccl.transport", "TCP sockets"),
}


def said(judgement: Judgement, check: str) -> str:
    return " ".join(f"{f.message} {f.cause}" for f in judgement.findings if f.check == check)


@pytest.mark.parametrize("number", sorted(OWED))
def test_capture(number: str) -> None:
    status, check, words = OWED[number]
    judgement = judge_text("nccl-tests", capture("nccl-tests", number))
    assert judgement.status == status, judgement.findings
    assert words in said(judgement, check), judgement.findings


def test_every_capture_is_owed_something() -> None:
    assert {file.name[:2] for file in all_captures("nccl-tests")} == set(OWED)


@pytest.mark.parametrize("file", all_captures("nccl-tests"), ids=lambda file: file.name[:2])
def test_auto_knows_the_tool(file) -> None:
    assert judge_text("auto", file.read_text(errors="replace")).tool == "nccl-tests"


@pytest.mark.parametrize(
    ("number", "path", "value"),
    [
        ("01", "peak_busbw", 235.26),
        ("01", "checked", False),
        ("02", "avg_busbw", 58.2651),
        ("05", "out_of_bounds", 0),
        ("09", "avg_busbw", 165.789),  # the tool's own line, not the mean of the rows that were kept
        ("13", "ranks", 1),
        ("16", "ranks", 2),  # from NCCL's lines, the rank list is cut away
        ("20", "ranks", None),
        ("23", "tests_version", "2.20.0"),
        ("31", "nodes", 2),
        ("34", "communicators", 2),
        ("35", "ranks", 8),
        ("43", "transport", "P2P/MNNVL"),
        ("43", "network", "IB"),
        ("50", "transport", "NET/Socket"),
        ("50", "gdr", False),
    ],
)
def test_facts(number: str, path: str, value: object) -> None:
    assert judge_text("nccl-tests", capture("nccl-tests", number)).facts[path] == value


def test_size_zero_rows_are_kept_apart() -> None:
    facts = JUDGE.parse(capture("nccl-tests", "05"))
    assert [row.bytes for row in facts.rows[:6]] == [0, 0, 0, 0, 0, 256]


def test_old_error_column_is_no_count() -> None:
    """1e-06 is rounding; 1e+00 in an in-place all-to-all is no fault where the tool says 0 out of bounds."""
    for number in ("46", "48", "49"):
        facts = JUDGE.parse(capture("nccl-tests", number))
        assert all(not side.wrong for row in facts.rows for side in row.sides)
        assert facts.checked is True


def test_milliseconds_of_2018() -> None:
    (row,) = JUDGE.parse(capture("nccl-tests", "34")).rows
    assert row.out_of_place is not None
    assert row.out_of_place.time_us == pytest.approx(2237)


@pytest.mark.parametrize("column", [8, 12])
def test_wrong_counts_in_either_column_fail(column: int) -> None:
    lines = capture("nccl-tests", "29").splitlines()
    place = next(i for i, line in enumerate(lines) if line.split()[:1] == ["1073741824"])
    words = lines[place].split()
    words[column] = "17"
    lines[place] = "  ".join(words)
    judgement = judge_text("nccl-tests", "\n".join(lines))
    assert judgement.status is Status.FAIL
    assert "17 elements at 1 GiB" in said(judgement, "nccl.wrong")


def test_out_of_bounds_footer_fails() -> None:
    text = capture("nccl-tests", "29").replace(": 0 OK", ": 248 FAILED")
    judgement = judge_text("nccl-tests", text)
    assert judgement.status is Status.FAIL
    assert judgement.facts["out_of_bounds"] == 248


def _multinode(nodes: int, busbw: float, extra: str, size: int = 17179869184, host: str = "rack07-n{:02d}") -> str:
    """An all_reduce over 4 GPUs a node, consistent in time, algbw and busbw."""
    ranks = 4 * nodes
    algbw = busbw / (2 * (ranks - 1) / ranks)
    time = size / algbw / 1000
    listed = "\n".join(
        f"#  Rank {rank:2d} Group  0 Pid {1000 + rank:6d} on {host.format(rank // 4 + 1)} device {rank % 4:2d} "
        f"[{8 + rank % 4:04x}:06:00] NVIDIA GB300"
        for rank in range(ranks)
    )
    side = f"{time:7.0f}  {algbw:6.2f}  {busbw:6.2f}       0"
    return (
        f"# nThread 1 nGpus 1 minBytes {size} maxBytes {size} step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
        f"validation: 1 graph: 0\n#\n# Using devices\n{listed}\n{extra}"
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
        f"  {size}  {size // 4}     float     sum      -1  {side}  {side}\n"
        f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {busbw:g}\n#\n"
    )


def _channel(path: str) -> str:
    return f"rack07-n01:1000:1200 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[0] via {path}\n"


def test_a_rack_over_nvlink_passes_its_floor() -> None:
    judgement = judge_text("nccl-tests", _multinode(18, 931.0, _channel("P2P/MNNVL")), load("gb300"))
    assert judgement.status is Status.PASS, judgement.findings
    (finding,) = (f for f in judgement.findings if f.check == "nccl.bandwidth")
    assert "937" in finding.expected
    assert "Azure" in finding.source


def test_a_rack_below_its_floor_fails() -> None:
    judgement = judge_text("nccl-tests", _multinode(18, 412.0, _channel("P2P/MNNVL")), load("gb300"))
    assert judgement.status is Status.FAIL
    assert "412 GB/s at 16 GiB is below the floor" in said(judgement, "nccl.bandwidth")


def test_infiniband_inside_a_rack_is_a_fall_back() -> None:
    text = _multinode(4, 378.2, _channel("NET/IB/0/GDRDMA(PCI)"))
    judgement = judge_text("nccl-tests", text, load("gb300"))
    assert judgement.status is Status.WARN
    assert "16 ranks on 4 nodes, peak 378.2 GB/s at 16 GiB" in said(judgement, "nccl.measured")
    assert "NET/IB, not P2P/MNNVL" in said(judgement, "nccl.transport")
    assert "IMEX channel missing" in said(judgement, "nccl.transport")
    assert judge_text("nccl-tests", text).status is Status.PASS  # the text alone shows no fault


def test_fewer_rails_are_told() -> None:
    judgement = judge_text("nccl-tests", _multinode(4, 378.2, _channel("NET/IB/0/GDRDMA(PCI)")), load("gb300"))
    assert "only 1 of 4 InfiniBand rails" in said(judgement, "nccl.rails")


def test_sockets_fail_a_platform_and_warn_without_one() -> None:
    text = _multinode(2, 3.1, _channel("NET/Socket/0"))
    assert judge_text("nccl-tests", text).status is Status.WARN
    judgement = judge_text("nccl-tests", text, load("gb300"))
    assert judgement.status is Status.FAIL
    assert "NET/Socket" in said(judgement, "nccl.transport")


def test_without_proof_of_the_path_no_figure_passes() -> None:
    judgement = judge_text("nccl-tests", _multinode(18, 931.0, ""), load("gb300"))
    assert judgement.status is Status.WARN
    assert "NCCL_DEBUG=INFO" in said(judgement, "nccl.transport")


def test_what_is_below_every_floor_fails_without_proof() -> None:
    assert judge_text("nccl-tests", _multinode(18, 97.0, ""), load("gb300")).status is Status.FAIL
    for number in ("39", "44"):
        judgement = judge_text("nccl-tests", capture("nccl-tests", number), load("gb300"))
        assert judgement.status is Status.FAIL
        assert "far below the floor" in said(judgement, "nccl.bandwidth")


def test_one_gpu_a_node_is_not_held_against_the_floor_for_all() -> None:
    text = _multinode(4, 378.2, _channel("P2P/MNNVL"))
    kept = [line for line in text.splitlines() if "Rank" not in line or re.search(r"device  0", line)]
    judgement = judge_text("nccl-tests", "\n".join(kept), load("gb300"))
    assert judgement.status is Status.WARN


def test_socket_on_one_line_of_many_is_seen() -> None:
    text = _multinode(2, 300.0, _channel("P2P/CUMEM") * 50 + _channel("NET/Socket/0"))
    assert judge_text("nccl-tests", text).facts["transport"] == "NET/Socket"


@pytest.mark.parametrize(
    ("mask", "trouble"),
    [("0xaa", ""), ("0x1aa", ""), ("0x0", ""), ("0xa9", "degraded bandwidth"), ("0x9a", "route unhealthy")],
)
def test_fabric_health_mask(mask: str, trouble: str) -> None:
    text = capture("nccl-tests", "24").replace("healthMask 0xaa", f"healthMask {mask}")
    judgement = judge_text("nccl-tests", text)
    assert (judgement.status is Status.FAIL) == bool(trouble)
    assert trouble in said(judgement, "nccl.fabric-health")


def test_zero_uuid_is_no_domain_of_its_own() -> None:
    text = capture("nccl-tests", "25")
    assert judge_text("nccl-tests", text).status is Status.UNKNOWN
    assert judge_text("nccl-tests", text, load("h200")).status is Status.UNKNOWN
    assert judge_text("nccl-tests", text, load("gb300")).status is Status.FAIL


def test_harmless_ras_warning_is_not_told() -> None:
    judgement = judge_text("nccl-tests", capture("nccl-tests", "44"))
    assert not any("bind failed" in finding.message for finding in judgement.findings)


def test_two_runs_in_one_text_are_two_runs() -> None:
    """Rank numbers come again, but results stand between: no independent processes, and two factors are no forgery."""
    first = _multinode(4, 700.0, _channel("P2P/MNNVL"))
    again = first.replace("Pid   10", "Pid   20").replace("700", "690")
    both = judge_text("nccl-tests", first + again)
    assert both.status is Status.PASS, both.findings
    assert (both.facts["runs"], both.facts["communicators"], both.facts["ranks"]) == (2, 1, 16)
    start = "# Collective test starting: {}_perf\n"
    mixed = start.format("all_reduce") + first + start.format("all_gather") + again
    judgement = judge_text("nccl-tests", mixed, load("gb300"))
    assert judgement.facts["collectives"] == ["all_reduce", "all_gather"]
    assert "one by one" in said(judgement, "nccl.bandwidth")


def test_a_repeated_warning_at_the_end_of_a_good_run_is_only_told() -> None:
    text = capture("nccl-tests", "29") + "# error: socketProgress: Connection refused\n"
    judgement = judge_text("nccl-tests", text)
    assert judgement.status is Status.WARN
    assert "Connection refused" in judgement.facts["errors"][0]


def test_a_dip_at_a_large_size_is_told() -> None:
    lines = capture("nccl-tests", "29").splitlines()
    place = next(i for i, line in enumerate(lines) if line.split()[:1] == ["1073741824"])
    lines[place] = "  1073741824  268435456  float  sum  -1  32436.4  33.10  57.93  0  32436.4  33.10  57.93  0"
    assert "falls to 57.93 GB/s at 1 GiB" in said(judge_text("nccl-tests", "\n".join(lines)), "nccl.dip")
