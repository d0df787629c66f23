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
        sent = launch(world, [1, 2], *one, test="sendrecv").out.splitlines()
        assert next(line for line in sent if "float" in line).split()[12] == "N/A"
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


class TestEnvironment:
    """What the environment switches off, and which rails it leaves."""

    def test_one_rail_carries_its_share_and_says_so(self, world: World) -> None:
        all_rails = launch(world, [1, 2], environment=INFINIBAND)
        one = launch(world, [1, 2], environment={**INFINIBAND, "NCCL_IB_HCA": "=mlx5_ib2"})
        assert busbw(one) == pytest.approx(busbw(all_rails) / 4, rel=0.03)
        assert "NCCL_IB_HCA set to =mlx5_ib2" in one.out
        assert "Using [0]mlx5_ib2:1/IB [RO]" in one.out and "mlx5_ib1" not in one.out
        assert set(re.findall(r"via NET/IB/(\d)/GDRDMA", one.out)) == {"0"}
        assert set(re.findall(r"via NET/IB/(\d)/GDRDMA", all_rails.out)) == {"0", "1", "2", "3"}

    @pytest.mark.parametrize(
        ("hca", "left"),
        [
            ("=mlx5_ib0,mlx5_ib3", "03"),
            ("mlx5_ib", "0123"),
            ("^mlx5_ib1", "023"),
            ("^=mlx5_ib1,mlx5_ib2:1", "03"),
            ("mlx5_ib1:1", "1"),
            ("", "0123"),
        ],
    )
    def test_nccl_ib_hca_is_read_as_nccl_reads_it(self, world: World, hca: str, left: str) -> None:
        answer = launch(world, [1, 2], environment={**INFINIBAND, "NCCL_IB_HCA": hca})
        using = next(line for line in answer.out.splitlines() if "NET/IB : Using" in line)
        assert re.findall(r"mlx5_ib(\d):", using) == list(left)

    def test_no_rail_is_left(self, world: World) -> None:
        answer = launch(world, [1, 2], environment={**INFINIBAND, "NCCL_IB_HCA": "=mlx5_9"})
        assert answer.code != 0 and "NET/IB : No device found." in answer.out

    def test_without_nvls_only_what_uses_it_is_slower(self, world: World) -> None:
        off = {**INFO, "NCCL_NVLS_ENABLE": "0"}
        assert busbw(launch(world, WHOLE, environment=off)) < 0.55 * busbw(launch(world, WHOLE))
        exchanged = [busbw(launch(world, WHOLE, test="alltoall", environment=e)) for e in (INFO, off)]
        assert exchanged[0] == pytest.approx(exchanged[1], rel=0.03)
        assert "NVLS multicast" not in launch(world, [1, 2], environment=off).out

    def test_pairwise_tests_show_their_own_connections(self, world: World) -> None:
        over_nvlink = launch(world, [1, 2], test="alltoall").out
        assert re.search(r"Channel 00/1 : 3\[3\] -> 4\[0\] via P2P/MNNVL", over_nvlink)
        over_infiniband = launch(world, [1, 2], test="sendrecv", environment=INFINIBAND).out
        assert re.search(r"Channel 00/1 : 3\[3\] -> 4\[0\] \[send\] via NET/IB/3/GDRDMA/Shared", over_infiniband)


class TestLayers:
    """A fault of one layer shows where that layer is used, and nowhere else."""

    @pytest.mark.parametrize(
        ("layer", "slow"),
        [
            ("nvls", {"nvls"}),
            ("nvlink", {"nvls", "nvlink"}),
            ("infiniband", {"infiniband"}),
            ("host", {"nvls", "nvlink", "infiniband"}),
        ],
    )
    def test_slow_node(self, world: World, layer: str, slow: set[str]) -> None:
        environments = {"nvls": INFO, "nvlink": {**INFO, "NCCL_NVLS_ENABLE": "0"}, "infiniband": INFINIBAND}
        good = {name: busbw(launch(world, [1, 2], environment=e)) for name, e in environments.items()}
        world.faults.add("slow-node", node="rack01-n02", layer=layer, factor=0.5)
        bad = {name: busbw(launch(world, [1, 2], environment=e)) for name, e in environments.items()}
        assert {name for name in good if bad[name] < 0.6 * good[name]} == slow
        assert all(bad[name] > 0.95 * good[name] for name in good if name not in slow)

    def test_a_rail_that_is_slow_into_gpu_memory(self, world: World) -> None:
        world.faults.add("rail-gdr-slow", node="rack01-n02", port="mlx5_ib2", factor=0.4)
        alone = [
            busbw(launch(world, [1, 2], environment={**INFINIBAND, "NCCL_IB_HCA": f"=mlx5_ib{n}"})) for n in range(4)
        ]
        assert alone[2] < 0.5 * min(alone[0], alone[1], alone[3])
        assert busbw(launch(world, [1, 2])) > 800

    def test_multicast_that_is_missing_on_a_node(self, world: World) -> None:
        world.faults.add("nvls-unavailable", node="rack01-n02")
        answer = launch(world, [1, 2])
        lacking = [line for line in answer.out.splitlines() if "NVLS multicast support is not available" in line]
        assert len(lacking) == 4 and all(line.startswith("rack01-n02") for line in lacking)
        assert busbw(answer) < 0.6 * 843

    def test_spoiled_data_is_counted_on_the_sides_that_are_compared_and_ends_with_an_error(self, world: World) -> None:
        world.faults.add("corrupts-data", node="rack01-n02", count=3)
        answer = launch(world, [1, 2])
        row = next(line for line in answer.out.splitlines() if "float" in line).split()
        assert (row[8], row[12]) == ("12", "12") and answer.code == 1
        assert "# Out of bounds values : 24 FAILED" in answer.out and "Exit code:    1" in answer.err
        row = next(line for line in launch(world, [1, 2], test="sendrecv").out.splitlines() if "float" in line).split()
        assert (row[8], row[12]) == ("12", "N/A")
        assert launch(world, [1, 3]).code == 0
        unchecked = launch(world, [1, 2], "-b", "1G", "-e", "1G", "-c", "0")
        assert unchecked.code == 0 and "N/A" in unchecked.out
