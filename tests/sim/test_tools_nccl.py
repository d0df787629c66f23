"""nccl-tests' log: laid out like the real ones, and as fast as the slowest part that takes part."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest

from ndctl.sim.tools import nccl
from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import World

Capture = Callable[[str], str]
INFO = {"NCCL_DEBUG": "INFO", "NCCL_MNNVL_ENABLE": "1"}
INFINIBAND = {"NCCL_DEBUG": "INFO", "NCCL_MNNVL_ENABLE": "0"}


def launch(
    world: World, nodes: list[int], *arguments: str, test: str = "all_reduce", environment: Mapping[str, str] = INFO
) -> Answer:
    hosts = [f"127.66.1.{node} 4" for node in nodes]
    given = arguments or ("-b", "16G", "-e", "16G", "-f", "2", "-g", "1")
    program = [f"/opt/nccl-tests/build/{test}_perf", *given]
    head = world.vm_at(f"127.66.1.{nodes[0]}")
    assert head is not None
    return nccl.launched(world, head, [str(4 * len(nodes)), "4", str(len(hosts)), *hosts, *program], environment)


def busbw(answer: Answer) -> float:
    """Out-of-place bus bandwidth of the last row, by the column's place."""
    row = [line for line in answer.out.splitlines() if re.match(r" +\d+ +\d+ +float", line)][-1]
    return float(row.split()[7])


WHOLE = list(range(1, 19))


class TestLayout:
    def test_everything_but_the_numbers_is_the_log_of_two_gb300_trays(self, world: World, capture: Capture) -> None:
        real = capture("nccl-tests/all-reduce-gb300-two-trays.txt").splitlines()
        options = ("-b", "134217728", "-e", "134217728", "-f", "2", "-w", "2", "-n", "5", "-c", "0")
        ours = launch(world, [1, 2], *options, environment={}).out.splitlines()
        real = [line for line in real if line and "NCCL WARN" not in line]
        ours = [line for line in ours if line]

        def shape(line: str) -> str:
            line = re.sub(r" on \S+ device", " on HOST device", line)
            return re.sub(r"\d+", "#", re.sub(r" +", " ", line)).rstrip()

        def general(line: str) -> str:
            return shape(line) if not line.startswith(" ") else re.sub(r"[\d.]+", "#", shape(line))

        assert [general(line) for line in ours] == [general(line.replace("cuda13.1", "cuda13.0")) for line in real]
        titles = [line for line in real if line.startswith(("#       size", "#        (B)"))]
        assert [line for line in ours if line.startswith(("#       size", "#        (B)"))] == [
            t.rstrip("\n") for t in titles
        ]
        rows = [next(line for line in lines if line.startswith("   134217728")) for lines in (ours, real)]
        assert len(rows[0]) == len(rows[1])

    def test_info_lines_have_the_forms_of_real_clusters(self, world: World, capture: Capture) -> None:
        def forms(text: str) -> set[str]:
            found = set()
            for line in text.splitlines():
                if "NCCL INFO" in line:
                    words = line.split("NCCL INFO ")[1]
                    words = re.sub(r"fabric UUID \S+", "fabric UUID #", words)
                    found.add(re.sub(r"\b(0x)?[0-9a-f]+\b", "#", words).rstrip("."))
            return found

        real = forms(
            capture("nccl-tests/info-gb300-clique-lines.txt") + capture("nccl-tests/info-gb200-single-tray.txt")
        )
        ours = forms(launch(world, [1, 2]).out)
        for start in ("MNNVL busId", "MNNVL #", "NCCL_MNNVL_ENABLE", "Channel", "Using network", "comm "):
            theirs = {form for form in real if form.startswith(start)}
            assert theirs & {form for form in ours if form.startswith(start)}, (start, theirs)

    def test_sizes_step_by_factor_and_columns_agree_with_each_other(self, world: World) -> None:
        answer = launch(world, WHOLE, "-b", "1K", "-e", "1G", "-f", "2")
        rows = [line.split() for line in answer.out.splitlines() if re.match(r" +\d+ +\d+ +float", line)]
        assert [int(row[0]) for row in rows] == [1024 << step for step in range(21)]
        for row in rows[10:]:
            size, time, algbw, bus = int(row[0]), float(row[5]), float(row[6]), float(row[7])
            assert algbw == pytest.approx(size / time / 1e3, rel=0.01)
            assert bus == pytest.approx(algbw * 2 * 71 / 72, rel=0.01)
        bandwidths = [float(row[7]) for row in rows]
        assert bandwidths[-1] > bandwidths[10] > bandwidths[0]
        average = float(re.search(r"# Avg bus bandwidth    : (\S+)", answer.out)[1])  # type: ignore[index]
        columns = [float(value) for row in rows for value in (row[7], row[11])]
        assert average == pytest.approx(sum(columns) / len(columns), rel=0.01)

    def test_alltoall_checks_no_in_place_result_and_all_gather_counts_by_rank(self, world: World) -> None:
        one = ("-b", "1G", "-e", "1G")
        exchanged = launch(world, [1, 2], *one, test="alltoall").out.splitlines()
        row = next(line for line in exchanged if "float" in line).split()
        assert row[8] == "0" and row[12] == "N/A" and row[3] == "none"
        gathered = launch(world, [1, 2], *one, test="all_gather").out.splitlines()
        gather = next(line for line in gathered if "float" in line)
        assert int(gather.split()[1]) == (1 << 30) // 4 // 8


class TestSpeed:
    def test_a_whole_rack_reaches_the_published_figure(self, world: World) -> None:
        answer = launch(world, WHOLE)
        assert busbw(answer) == pytest.approx(937, rel=0.011)
        assert answer.out.count("via P2P/MNNVL") > 0 and "NET/IB/" not in answer.out
        assert "cliqueSize 72" in answer.out

    def test_runs_differ_by_noise_only(self, world: World) -> None:
        figures = {busbw(launch(world, WHOLE)) for _ in range(4)}
        assert len(figures) > 1 and max(figures) / min(figures) < 1.021

    def test_message_size_matters_as_in_gb200_racks(self, world: World) -> None:
        whole = busbw(launch(world, WHOLE))
        assert busbw(launch(world, WHOLE, "-b", "512M", "-e", "512M")) == pytest.approx(0.69 * whole, rel=0.06)
        assert busbw(launch(world, WHOLE, "-b", "2G", "-e", "2G")) == pytest.approx(0.90 * whole, rel=0.06)

    @pytest.mark.parametrize(("kind", "at_most"), [("nvlink-down", 0.5), ("slow-node", 0.65)])
    def test_a_bad_node_slows_every_run_it_takes_part_in(self, world: World, kind: str, at_most: float) -> None:
        world.faults.add(kind, node="rack01-n11")
        assert busbw(launch(world, WHOLE)) < at_most * 937
        assert busbw(launch(world, [node for node in WHOLE if node != 11])) > 900

    def test_infiniband_only_says_so_and_feels_its_ports(self, world: World) -> None:
        healthy = launch(world, [1, 2], environment=INFINIBAND)
        assert "via NET/IB/" in healthy.out and "GDRDMA" in healthy.out and "MNNVL 1" not in healthy.out
        world.faults.add("port-half-rate", node="rack01-n02", port="mlx5_ib1")
        assert busbw(launch(world, [1, 2], environment=INFINIBAND)) < 0.6 * busbw(healthy)
        assert busbw(launch(world, [1, 2])) > 700

    def test_a_missing_imex_ends_the_run_when_mnnvl_is_asked_for_and_falls_back_when_not(self, world: World) -> None:
        world.faults.add("imex-peer-missing", node="rack01-n02")
        forced = launch(world, [1, 2])
        assert forced.code != 0 and "is available but not working" in forced.out and "mpirun detected" in forced.err
        assert "Avg bus bandwidth" not in forced.out
        free = launch(world, [1, 2], environment={"NCCL_DEBUG": "INFO"})
        assert free.code == 0 and "via NET/IB/" in free.out and "P2P/MNNVL" not in free.out
        assert launch(world, [1, 3]).code == 0

    def test_two_cliques_talk_over_infiniband(self, world: World) -> None:
        world.faults.add("clique-split", node="rack01-n02")
        answer = launch(world, [1, 2])
        assert "via NET/IB/" in answer.out and "P2P/MNNVL" not in answer.out

    def test_another_partition_key_ends_infiniband_runs_only(self, world: World) -> None:
        world.faults.add("wrong-pkey", node="rack01-n02")
        failed = launch(world, [1, 2], environment=INFINIBAND)
        assert failed.code != 0 and "status=12" in failed.out
        assert launch(world, [1, 2]).code == 0

    def test_a_missing_gpu_is_an_error_of_that_host(self, world: World) -> None:
        world.faults.add("gpu-missing", node="rack01-n02", gpu=0)
        failed = launch(world, [1, 2])
        assert (
            failed.code != 0
            and "rack01-n02: Test CUDA failure" in failed.out
            and "invalid device ordinal" in failed.out
        )

    def test_too_few_slots(self, world: World) -> None:
        head = world.vm_at("127.66.1.1")
        assert head is not None
        answer = nccl.launched(world, head, ["9", "", "1", "127.66.1.1 4", "all_reduce_perf"], {})
        assert answer.code != 0 and "not enough slots available" in answer.err
