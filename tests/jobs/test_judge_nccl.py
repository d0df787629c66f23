"""What runs of a known launch prove: own texts for each way to fail, and captured outputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndctl.jobs.isolation import GroupVerdict
from ndctl.jobs.judge_nccl import judge, verdict
from ndctl.jobs.nccl import NcclLaunch, NcclRun
from ndctl.jobs.nccl_asked import MNNVL, NET_IB, Asked, in_rack, over_infiniband, over_rail
from ndctl.jobs.nccl_hints import hints
from ndctl.model.answers import CommandResult
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status
from ndctl.profiles import load
from tests.checks.captures import capture

GB = 1 << 30
HEAD = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"
PASS, WARN, FAIL, UNKNOWN, SKIP = Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN, Status.SKIP


def launch(nodes: int = 4, gpus: int = 4, **changes: object) -> NcclLaunch:
    names = tuple(Node(f"rack01-n{n:02d}", "rack01", address=f"10.0.0.{n}") for n in range(1, nodes + 1))
    return replace(NcclLaunch("all_reduce", names, gpus, {}, {}, "/opt", "t"), **changes)  # type: ignore[arg-type]


def row(size: int, busbw: float, wrong: tuple[str, str] = ("0", "0"), inside: float | None = None) -> str:
    sides = [f"1000.0  100.00  {value:.2f}  {bad}" for value, bad in zip((busbw, inside or busbw), wrong, strict=True)]
    return f" {size} {size // 4} float sum -1  {'  '.join(sides)}"


def table(
    *rows: str, ranks: int = 16, via: str | None = "P2P/MNNVL", bounds: str | None = "0 OK", end: bool = True,
    more: tuple[str, ...] = (),
) -> str:  # fmt: skip
    lines = ["# Collective test starting: all_reduce_perf", "# nThread 1 nGpus 1 validation: 1"]
    lines += [f"#  Rank {n} Group  0 Pid {n + 10} on h{n // 4} device {n % 4} [0018:01:00] GB300" for n in range(ranks)]
    lines += [f"h0:10:10 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {via}"] if via else []
    lines += [*more, HEAD, *rows]
    lines += [f"# Out of bounds values : {bounds}"] if bounds else []
    lines += ["# Avg bus bandwidth    : 900.0", "#"] if end else []
    return "\n".join(lines) + "\n"


def run(text: str, exit_code: int | None = 0, seconds: float = 30.0, of: NcclLaunch | None = None) -> NcclRun:
    return NcclRun(of or launch(), CommandResult("nccl-all_reduce", exit_code, text, "", seconds))


def judged(
    text: str, profile: str = "gb300", scope: str = "rack", asked: Asked | None = None, **more: object
) -> list[Finding]:
    if asked is None:
        asked = Asked("nccl.all-reduce", "all_reduce", scope, NET_IB if scope == "infiniband" else MNNVL)
    return judge(run(text, **more), load(profile), "rack01", "rack01-n01/x", asked)  # type: ignore[arg-type]


def told(findings: list[Finding]) -> list[tuple[str, Status]]:
    return [(f.check.removeprefix("nccl.all-reduce").lstrip("."), f.status) for f in findings]


def test_a_good_run_passes_with_its_figure_and_where_the_expectation_is_from() -> None:
    [finding] = judged(table(row(GB, 700), row(16 * GB, 890)))
    assert (finding.check, finding.status, finding.value, finding.unit) == ("nccl.all-reduce", PASS, 890.0, "GB/s")
    assert "890" in finding.expected and "760" in finding.expected and "2026-04" in finding.source
    assert verdict([finding]) is GroupVerdict.GOOD


@pytest.mark.parametrize(("busbw", "status"), [(759.9, WARN), (570.0, WARN), (569.9, FAIL), (6.35, FAIL)])
def test_a_slow_run_is_held_against_the_floor_of_its_size(busbw: float, status: Status) -> None:
    [finding] = judged(table(row(16 * GB, busbw)))
    assert told([finding]) == [("slow", status)]
    assert finding.cause and finding.action is Action.INVESTIGATE and verdict([finding]) is GroupVerdict.SLOW


def test_the_floor_is_that_of_the_number_of_nodes() -> None:
    text = table(row(16 * GB, 780), ranks=72)
    assert told(judged(text, of=launch(18))) == [("slow", WARN)]
    assert told(judged(table(row(16 * GB, 780)))) == [("", PASS)]


def test_the_slower_side_counts() -> None:
    [finding] = judged(table(row(16 * GB, 890, inside=500)))
    assert finding.value == 500.0 and finding.status is FAIL


def test_small_messages_are_not_held_against_the_floor() -> None:
    assert told(judged(table(row(GB, 100), row(16 * GB, 890)))) == [("", PASS)]


@pytest.mark.parametrize(
    ("wrong", "where"), [(("3", "0"), "out-of-place"), (("0", "3"), "in-place"), (("3", "3"), "out-of-place and in-")]
)
def test_wrong_results_fail_whichever_side_shows_them(wrong: tuple[str, str], where: str) -> None:
    """Gates that read only the last column miss errors of the first."""
    findings = judged(table(row(GB, 700, wrong), row(16 * GB, 890), bounds="1 FAILED"), exit_code=1)
    [finding] = [f for f in findings if f.status is FAIL]
    assert finding.check == "nccl.all-reduce.wrong" and finding.value == int(wrong[0]) + int(wrong[1])
    assert f"at 1 GiB {where}" in finding.message
    assert verdict(findings) is GroupVerdict.ERROR


def test_wrong_results_that_only_the_last_line_tells_fail() -> None:
    findings = judged(table(row(16 * GB, 890), bounds="7 FAILED"), exit_code=1)
    assert ("wrong", FAIL) in told(findings)


@pytest.mark.parametrize("wrong", [("N/A", "N/A"), ("0", "N/A")])
def test_results_that_were_not_compared_are_unknown(wrong: tuple[str, str]) -> None:
    findings = judged(table(row(16 * GB, 890, wrong)))
    assert ("correctness", UNKNOWN) in told(findings)
    assert verdict(findings) is GroupVerdict.GOOD  # the figure is a figure


@pytest.mark.parametrize("via", ["NET/IB/0/GDRDMA", "NET/Socket/0"])
def test_a_fall_back_fails_even_at_full_speed(via: str) -> None:
    findings = judged(table(row(16 * GB, 890), via=via))
    [finding] = [f for f in findings if f.status is FAIL]
    assert finding.check == "nccl.all-reduce.transport" and finding.expected == "MNNVL"
    assert finding.action is Action.RESTART_IMEX and "IMEX" in finding.cause


def test_one_channel_that_leaves_the_rack_is_a_fall_back() -> None:
    text = table(row(16 * GB, 890), more=("h1:14:14 [0] NCCL INFO Channel 00/0 : 3[0] -> 4[0] [send] via NET/IB/1",))
    assert ("transport", FAIL) in told(judged(text))


def test_a_fall_back_that_was_asked_for_is_the_inventorys() -> None:
    of = launch(environment={"NCCL_MNNVL_ENABLE": "0"})
    [finding] = [f for f in judged(table(row(16 * GB, 890), via="NET/IB/0"), of=of) if f.status is FAIL]
    assert finding.action is Action.FIX_INVENTORY and "NCCL_MNNVL_ENABLE=0" in finding.cause


def test_a_transport_that_is_not_shown_is_unknown() -> None:
    assert told(judged(table(row(16 * GB, 890), via=None))) == [("transport", UNKNOWN), ("", PASS)]


def test_ranks_that_all_say_mnnvl_prove_it_without_channels() -> None:
    """Channels are connected when they are first needed; with NVLS alone none is printed."""
    more = ("h0:10:10 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 1 localRanks 16 localRank 0 MNNVL 1",)
    assert told(judged(table(row(16 * GB, 890), via=None, more=more))) == [("", PASS)]


def test_a_rack_without_nvls_is_a_warning() -> None:
    more = ("h0:10:10 [0] NCCL INFO NVLS multicast support is not available on dev 0",)
    text = table(row(16 * GB, 890), more=more)
    assert ("nvls", WARN) in told(judged(text))
    assert told(judged(text, of=launch(environment={"NCCL_NVLS_ENABLE": "0"}))) == [("", PASS)]


def test_infiniband_is_proven_where_it_is_asked_for() -> None:
    text = table(row(16 * GB, 380), via="NET/IB/0/GDRDMA")
    assert told(judged(text, scope="infiniband")) == [("", PASS)]
    text = table(row(16 * GB, 380), via="NET/Socket/0")
    assert ("transport", FAIL) in told(judged(text, scope="infiniband"))


def test_large_messages_that_are_missing_are_unknown() -> None:
    assert told(judged(table(row(GB, 890)))) == [("no-result", UNKNOWN)]
    assert verdict(judged(table(row(GB, 890)))) is None


def test_an_output_that_is_cut_off_is_no_pass() -> None:
    assert told(judged(table(row(16 * GB, 890), bounds=None, end=False))) == [("cut", UNKNOWN)]


def test_fewer_ranks_than_asked_for_fail() -> None:
    findings = judged(table(row(16 * GB, 890), ranks=12))
    assert ("ranks", FAIL) in told(findings)
    assert "12 ranks in 1 communicators ran, 16 were asked for" in findings[0].message
    assert verdict(findings) is None  # not what was asked for, so it blames no group


def test_a_test_without_mpi_is_the_images_fault() -> None:
    alone = "".join(f"#  Rank  0 Group  0 Pid {n} on h0 device 0 [0018:01:00] GB300\n" for n in range(16))
    [finding] = [f for f in judged(alone + table(row(16 * GB, 0.0), ranks=0)) if f.check.endswith(".ranks")]
    assert finding.action is Action.FIX_IMAGE and "without MPI" in finding.cause


def test_ranks_that_are_not_shown_are_unknown() -> None:
    assert ("ranks", UNKNOWN) in told(judged(table(row(16 * GB, 890), ranks=0)))


@pytest.mark.parametrize(("code", "seconds"), [(124, 240.2), (137, 245.3), (124, 0.0)])
def test_a_deadline_that_passed_is_a_hang(code: int, seconds: float) -> None:
    [finding] = judged(table(row(GB, 700), bounds=None, end=False), exit_code=code, seconds=seconds)
    assert told([finding]) == [("hang", FAIL)] and "after 1 GiB" in finding.message
    assert verdict([finding]) is GroupVerdict.HANG


def test_a_rank_that_was_killed_early_is_no_hang() -> None:
    """Exit code 137 is also that of a rank somebody killed."""
    text = table(end=False, bounds=None) + "mpirun noticed that process rank 3 exited on signal 9 (Killed).\n"
    [finding] = judged(text, exit_code=137, seconds=12.0)
    assert told([finding]) == [("error", FAIL)]


def test_a_client_that_lost_patience_is_a_hang() -> None:
    late = NcclRun(launch(), CommandResult("x", None, "", "", 270.0, timed_out=True))
    assert told(judge(late, load("gb300"), "rack01", "e")) == [("hang", FAIL)]


@pytest.mark.parametrize(
    ("text", "code", "action"),
    [
        (
            "ssh: connect to host 10.0.0.3 port 22: Connection refused\nORTE was unable to reliably start daemons.",
            1,
            None,
        ),
        ("Host key verification failed.\nORTE was unable to reliably start one or more daemons.", 1, None),
        ("There are not enough slots available in the system", 1, None),
        ("mpirun: not found: neither in PATH, nor as module mpi/hpcx, nor in /opt/hpcx*", 127, Action.FIX_IMAGE),
        ("mpirun was unable to find the specified executable file: No such file or directory", 134, Action.FIX_IMAGE),
        ("", 0, None),
        ("\x00\x01binary", 1, None),
    ],
)
def test_a_launch_that_fails_before_the_ranks_measured_nothing(text: str, code: int, action: Action | None) -> None:
    [finding] = judged(text, exit_code=code, seconds=3.0)
    assert told([finding]) == [("no-result", UNKNOWN)]
    assert finding.message and verdict([finding]) is None
    if action:
        assert finding.action is action
    if "10.0.0.3" in text:
        assert "(rack01-n03)" in finding.message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("h2: Test NCCL failure common.cu:1204 'unhandled system error'", "system error"),
        ("h2:18:18 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<41877> with status=12 opcode=1", "retry"),
        ("ORTE has lost communication with a remote daemon.", "launcher"),
        ("h2: Test CUDA failure common.cu:1030 'an illegal memory access was encountered'", "CUDA failed in a kernel"),
    ],
)
def test_an_error_after_the_ranks_started_is_the_racks(line: str, words: str) -> None:
    [finding] = judged(table(bounds=None, end=False) + line + "\n", exit_code=3, seconds=20.0)
    assert told([finding]) == [("error", FAIL)] and words in finding.message
    assert verdict([finding]) is GroupVerdict.ERROR


def test_an_error_amid_the_results_keeps_no_pass() -> None:
    text = table(row(16 * GB, 890), bounds=None, end=False) + "h2: Test NCCL failure common.cu:1 'internal error'\n"
    findings = judged(text, exit_code=3)
    assert told(findings) == [("error", FAIL)] and "after 16 GiB" in findings[0].message


def test_gpus_that_others_hold_are_no_fault() -> None:
    text = table(bounds=None, end=False) + "h2: Test CUDA failure common.cu:1 'out of memory'\n"
    assert told(judged(text, exit_code=2)) == [("no-result", UNKNOWN)]


def test_a_complaint_beside_good_results_is_a_warning_and_blames_no_group() -> None:
    more = ("h1:14:14 [0] transport/nvls.cc:379 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory",)
    findings = judged(table(row(16 * GB, 890), more=more))
    assert told(findings) == [("", PASS), ("warning", WARN)]
    assert verdict(findings) is GroupVerdict.GOOD


def test_a_run_that_never_began_says_why() -> None:
    [finding] = judge(NcclRun(launch(), None, "no host key is known for rack01-n02"), load("gb300"), "rack01", "e")
    assert told([finding]) == [("no-result", UNKNOWN)] and "rack01-n02" in finding.message


def test_where_no_floor_is_published_transport_and_results_judge_and_the_figure_is_told() -> None:
    asked = in_rack("nccl.alltoall", "alltoall", load("gb300"))
    [finding] = judged(table(row(16 * GB, 640, ("0", "N/A"))), asked=asked)
    assert (finding.check, finding.status, finding.value) == ("nccl.alltoall", PASS, 640.0)
    assert "no floor is published" in finding.message and verdict([finding]) is GroupVerdict.GOOD
    [finding] = judged(table(row(16 * GB, 300), via="NET/IB/0/GDRDMA"), profile="h200", scope="infiniband")
    assert told([finding]) == [("", PASS)] and "no floor is published" in finding.expected


def test_without_a_floor_what_no_sound_path_gives_is_slow_all_the_same() -> None:
    """A rack at the speed of one InfiniBand port is not sound because nobody published a figure."""
    asked = in_rack("nccl.all-gather", "all_gather", load("gb300"))
    [finding] = judged(table(row(16 * GB, 6)), asked=asked)
    assert (finding.check, finding.status) == ("nccl.all-gather.slow", FAIL)
    assert "0.25 of all_reduce's floor" in finding.source and finding.cause
    assert verdict([finding]) is GroupVerdict.SLOW


def test_without_a_floor_a_missing_proof_is_no_pass_of_the_rack() -> None:
    asked = in_rack("nccl.all-gather", "all_gather", load("gb300"))
    assert UNKNOWN in {f.status for f in judged(table(row(16 * GB, 700), via=None), asked=asked)}
    assert FAIL in {f.status for f in judged(table(row(16 * GB, 700), via="NET/IB/0/GDRDMA"), asked=asked)}
    assert UNKNOWN in {f.status for f in judged(table(row(1024, 700)), asked=asked)}


@pytest.mark.parametrize("test", ["alltoall", "sendrecv"])
def test_in_place_results_that_the_tool_never_compares_are_no_gap(test: str) -> None:
    asked = in_rack(f"nccl.{test}", test, load("gb300"))
    assert [f.status for f in judged(table(row(16 * GB, 640, ("0", "N/A"))), asked=asked)] == [PASS]
    gap = judged(table(row(16 * GB, 640, ("N/A", "N/A"))), asked=asked)
    assert (f"nccl.{test}.correctness", UNKNOWN) in {(f.check, f.status) for f in gap}
    wrong = judged(table(row(16 * GB, 640, ("2", "N/A")), bounds="2 FAILED"), asked=asked, exit_code=1)
    assert (f"nccl.{test}.wrong", FAIL) in {(f.check, f.status) for f in wrong}
    # The others are compared on both sides.
    gather = in_rack("nccl.all-gather", "all_gather", load("gb300"))
    findings = judged(table(row(16 * GB, 640, ("0", "N/A"))), asked=gather)
    assert ("nccl.all-gather.correctness", UNKNOWN) in {(f.check, f.status) for f in findings}


def rails_log(*numbers: int, listed: str = "0123", suffix: str = "", gdr: str = "/GDRDMA") -> tuple[str, ...]:
    lines = []
    for host in range(4):
        devices = " ".join(f"[{place}]mlx5_ib{n}{suffix}:1/IB" for place, n in enumerate(listed))
        lines.append(f"h{host}:10:10 [0] NCCL INFO NET/IB : Using {devices} [RO]; OOB eth0:10.0.0.1<0>")
        lines += [
            f"h{host}:10:10 [0] NCCL INFO Channel 0{n}/0 : 3[3] -> 4[0] [send] via NET/IB/{n}{gdr}" for n in numbers
        ]
    return tuple(lines)


IB = over_infiniband("nccl.all-reduce-ib", load("gb300"))


def ib(*more: str, asked: Asked = IB, busbw: float = 370) -> list[tuple[str, Status]]:
    findings = judged(table(row(16 * GB, busbw), via=None, more=more), asked=asked)
    return [(f.check.removeprefix(asked.check).lstrip("."), f.status) for f in findings]


def test_infiniband_counts_with_gpudirect_and_all_rails() -> None:
    assert ib(*rails_log(0, 1, 2, 3)) == [("", PASS)]
    assert ib(*rails_log(0, 1, 2, 3, suffix="_dma")) == [("", PASS)]  # Data Direct has a name of its own
    assert ("rails", FAIL) in ib(*rails_log(0, 1, 2))
    merged = [
        line
        for host in range(4)
        for line in (
            f"h{host}:10:10 [0] NCCL INFO NET/IB : Made virtual device [4] name=mlx5_ib0+mlx5_ib1 ndevs=2",
            f"h{host}:10:10 [0] NCCL INFO NET/IB : Made virtual device [5] name=mlx5_ib2+mlx5_ib3 ndevs=2",
        )
    ]
    assert ib(*rails_log(4, 5), *merged) == [("", PASS)]  # the ports of one card taken as one device
    assert ("gdr", FAIL) in ib(*rails_log(0, 1, 2, 3, gdr=""))
    assert ("rails", UNKNOWN) in ib("h0:10:10 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA")
    assert ib(*rails_log(0, 1, 2, 3), busbw=160) == [("slow", WARN)]


def test_a_node_without_a_rail_is_named() -> None:
    log = list(rails_log(0, 1, 2, 3))
    log[-5] = log[-5].replace("[3]mlx5_ib3:1/IB ", "")
    findings = judged(table(row(16 * GB, 370), via=None, more=tuple(log)), asked=IB)
    [finding] = [f for f in findings if f.status is FAIL]
    assert (finding.check, finding.node) == ("nccl.all-reduce-ib.rails", "rack01-n04")
    assert "mlx5_ib3" in finding.message


def test_nvlink_is_no_proof_of_infiniband() -> None:
    findings = judged(table(row(16 * GB, 900), via="P2P/MNNVL"), asked=IB)
    [finding] = [f for f in findings if f.status is FAIL]
    assert finding.check == "nccl.all-reduce-ib.transport" and finding.action is Action.FIX_INVENTORY


def test_one_rail_is_held_against_its_share_and_must_be_alone() -> None:
    one = over_rail("nccl.one-rail", load("gb300"), "mlx5_ib2")
    assert ib(*rails_log(0, listed="2"), asked=one, busbw=90) == [("", PASS)]
    assert ib(*rails_log(0, listed="2"), asked=one, busbw=50) == [("slow", WARN)]
    assert ib(*rails_log(0, listed="2"), asked=one, busbw=30) == [("slow", FAIL)]
    assert ("rails", FAIL) in ib(*rails_log(0, 1, 2, 3), asked=one, busbw=90)


CAPTURED = [
    # name, nodes, GPUs a node, profile, exit code, what must be told
    ("44-", 2, 4, "gb300", 0, [("correctness", UNKNOWN), ("transport", UNKNOWN), ("no-result", UNKNOWN)]),
    ("01-", 1, 8, "h200", 0, [("correctness", UNKNOWN), ("slow", FAIL)]),
    ("19-", 2, 1, "h200", 3, [("error", FAIL)]),
    ("38-", 2, 4, "gb300", 3, [("error", FAIL)]),
    ("20-", 2, 4, "gb300", 2, [("error", FAIL)]),
    ("17-", 2, 4, "gb300", 3, [("error", FAIL)]),
    ("28-", 2, 8, "h200", 1, [("no-result", UNKNOWN)]),
    ("35-", 2, 8, "h200", 0, [("no-result", UNKNOWN)]),
    ("50-", 4, 1, "h200", 0, [("no-result", UNKNOWN)]),
    ("41-", 2, 8, "h200", 0, [("no-result", UNKNOWN)]),
]


@pytest.mark.parametrize(("name", "nodes", "gpus", "profile", "code", "expected"), CAPTURED)
def test_captured_outputs(
    name: str, nodes: int, gpus: int, profile: str, code: int, expected: list[tuple[str, Status]]
) -> None:
    scope = "node" if nodes == 1 else "rack"
    findings = judged(capture("nccl-tests", name), profile, scope, exit_code=code, of=launch(nodes, gpus))
    assert told(findings) == expected


def hinted(text: str, **more: object) -> list[str]:
    return [node.name for node in hints(run(text, **more))]  # type: ignore[arg-type]


def init(ranks: range, step: str) -> str:
    return "".join(
        f"h{r // 4}:{r}:{r} [{r % 4}] NCCL INFO ncclCommInitRankConfig comm 0x1 rank {r} nranks 16 cudaDev 0 nvmlDev 0 "
        f"busId 1 commId 0x2 - Init {step}\n"
        for r in ranks
    )


def test_a_hang_points_at_the_ranks_that_never_came_up() -> None:
    assert hinted(init(range(12), "START")) == ["rack01-n04"]
    everyone = init(range(16), "START")
    assert hinted(everyone + init(range(4, 16), "COMPLETE")) == ["rack01-n01"]
    assert hinted(everyone + init(range(16), "COMPLETE")) == []
    assert hinted("") == []


def test_a_log_that_points_at_most_of_the_nodes_points_at_nobody() -> None:
    assert hinted(init(range(2), "START")) == []


def test_an_error_points_at_the_first_who_failed_for_its_own_sake() -> None:
    sympathy = "h3:12:12 [0] NCCL WARN remote process exited or there was a network error\n"
    own = "h1: Test CUDA failure common.cu:1 'uncorrectable ECC error encountered'\n"
    assert hinted(table(bounds=None, end=False) + sympathy + own) == ["rack01-n02"]
    assert hinted(table(bounds=None, end=False) + sympathy) == []
    assert hinted(table(bounds=None, end=False) + own.replace("h1:", "stranger:")) == []


def test_nodes_of_one_host_name_are_not_told_apart() -> None:
    text = table(bounds=None, end=False).replace(" on h1 ", " on h0 ")
    assert hinted(text + "h0: Test NCCL failure common.cu:1 'internal error'\n") == []


@given(st.data())
def test_a_log_that_is_cut_anywhere_is_no_pass(data: st.DataObject) -> None:
    """The tool's closing lines vouch for the rest; before them nothing does."""
    text = table(row(16 * GB, 370), via=None, more=rails_log(0, 1, 2, 3))
    end = data.draw(st.integers(0, text.index("# Avg bus bandwidth")))
    findings = judged(text[:end], asked=IB)
    assert findings and all(f.status is not PASS for f in findings)
    assert verdict(findings) is not GroupVerdict.GOOD
