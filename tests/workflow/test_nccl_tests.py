"""NCCL tests of a rack beside all_reduce, and the layer a culprit's fault is in, over folders that stand for nodes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from tests.workflow.test_active import NCCL_CHECK, Rig, bad

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and os.environ.get("CI") != "true", reason="no ssh-keygen on this machine"
)
IB_CHECK, RAIL_CHECK = "nccl.all-reduce-ib", "nccl.one-rail"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    one = Rig(tmp_path)
    yield one
    assert one.left() == []


def culprit(rig: Rig, *faults: str, only: str = "") -> Finding:
    rig.plant(*faults)
    [finding] = bad(rig.run(only=only))
    return finding


@pytest.mark.parametrize(
    ("layer", "told", "tests"),
    [
        ("nvlink", "the layer is NVLink (", 4),
        ("nvls", "the layer is NVLS, the NVLink switches' multicast (", 4),
        ("host", "the layer is the host, which every path shares (", 8),
    ],
)
def test_the_layer_of_a_slow_node_is_told_with_figures_and_tests(rig: Rig, layer: str, told: str, tests: int) -> None:
    finding = culprit(rig, f"slow 10.0.0.6 500 {layer}")
    assert (finding.check, finding.node) == (f"{NCCL_CHECK}.slow-node", "rack01-n06")
    assert told in finding.cause and f"{tests} more tests" in finding.cause
    assert "NVLink with NVLS: 500 GB/s" in finding.cause
    assert "InfiniBand only: 200 GB/s (good nodes 380)" in finding.cause if layer == "host" else "380" in finding.cause
    story = next(text for _, command, text in rig.run().texts if command == "nccl-isolation")
    assert "layers of rack01-n06: the layer is" in story


def test_a_node_with_faults_in_two_links_is_no_host(rig: Rig) -> None:
    finding = culprit(rig, "slow 10.0.0.6 500 nvlink", "slow 10.0.0.6 500 mlx5_ib3")
    assert "the layer is NVLink, and InfiniBand rail mlx5_ib3 besides" in finding.cause


def test_the_layer_of_a_path_is_told(rig: Rig) -> None:
    finding = culprit(rig, "path 10.0.0.2 10.0.0.7 nvlink")
    assert finding.check == f"{NCCL_CHECK}.path" and finding.node == ""
    assert "a switch or cable between them; the layer is NVLink (" in finding.cause


def test_where_nobody_is_found_the_layers_of_the_whole_are_told(rig: Rig) -> None:
    """Slow only when all eight take part: there are no good nodes to hold it against, so floors are."""
    rig.plant("whole 8 x nvls")
    [finding] = bad(rig.run())
    assert finding.check == f"{NCCL_CHECK}.slow" and finding.node == ""
    assert "no node and no path alone explains it" in finding.cause
    assert "InfiniBand only: 380 GB/s (floor 225)" in finding.cause
    assert "no nodes proven good to hold it against" in finding.cause
    assert "the layer is NVLink or its multicast (NVLS) (" in finding.cause


def test_wrong_results_have_a_layer_too(rig: Rig) -> None:
    finding = culprit(rig, "wrong 10.0.0.3 x nvlink")
    assert finding.check == f"{NCCL_CHECK}.error-node"
    assert "NVLink without NVLS: wrong results" in finding.cause and "the layer is NVLink (" in finding.cause


def test_who_falls_back_needs_no_layers(rig: Rig) -> None:
    finding = culprit(rig, "socket 10.0.0.3 x")
    assert "the layer is" not in finding.cause and set(rig.kinds) == {"all_reduce nvls"}


def test_layers_that_cannot_be_run_are_told_as_far_as_they_go(rig: Rig) -> None:
    finding = culprit(rig, "slow 10.0.0.6 500 nvlink", "refuse 10.0.0.6 x ib")
    assert finding.node == "rack01-n06"
    assert "which layer it is could not be told" in finding.cause
    assert "NVLink without NVLS: 237 GB/s (good nodes 450)" in finding.cause
    assert "InfiniBand only: the launcher could not reach" in finding.cause


def test_a_culprit_costs_four_more_runs_and_a_good_rack_none(rig: Rig) -> None:
    rig.run()
    assert rig.kinds == ["all_reduce nvls"]
    finding = culprit(rig, "slow 10.0.0.6 500 nvlink")
    layers = [kind for kind in rig.kinds if kind != "all_reduce nvls"]
    assert sorted(layers) == ["all_reduce ib"] * 2 + ["all_reduce nvlink"] * 2
    more = re.search(r"(\d+) more tests", finding.cause)
    assert more is not None and int(more[1]) == len(layers)


@pytest.mark.parametrize("test", ["all_gather", "reduce_scatter", "alltoall", "sendrecv"])
def test_a_collective_without_a_floor_passes_by_transport_and_results(rig: Rig, test: str) -> None:
    check = f"nccl.{test.replace('_', '-')}"
    result = rig.run(only=check)
    [finding] = result.findings
    assert (finding.check, finding.status, finding.value) == (check, Status.PASS, 950.0)
    assert "no floor is published" in finding.message and result.required == (check,)
    assert [(m["metric"], m["subject"]) for m in result.measurements] == [(f"nccl.{test}.busbw", "rack01")]
    assert rig.kinds == [f"{test} nvls"]
    # Wrong data, errors and fall-backs are located as for all_reduce.
    assert culprit(rig, "wrong 10.0.0.3 x", only=check).check == f"{check}.error-node"
    assert culprit(rig, "socket 10.0.0.5 x", only=check).node == "rack01-n05"


def test_infiniband_only_switches_nvlink_off_whatever_the_inventory_says(rig: Rig) -> None:
    path = Path(rig.loaded.path)
    path.write_text(path.read_text() + "nccl_env: {NCCL_MNNVL_ENABLE: '1', NCCL_NVLS_ENABLE: '1'}\n")
    from ndctl.inventory.loader import load

    rig.loaded = load(path)
    [finding] = rig.run(only=IB_CHECK).findings
    assert (finding.check, finding.status, finding.value) == (IB_CHECK, Status.PASS, 380.0)
    assert rig.kinds == ["all_reduce ib"]


def test_a_slow_rail_of_a_node_is_the_layer_of_infiniband_only(rig: Rig) -> None:
    finding = culprit(rig, "slow 10.0.0.6 300 mlx5_ib2", only=IB_CHECK)
    assert (finding.check, finding.node) == (f"{IB_CHECK}.slow-node", "rack01-n06")
    assert "the layer is InfiniBand rail mlx5_ib2" in finding.cause
    assert "NVLink with NVLS: 950 GB/s (good nodes 950)" in finding.cause


def test_each_rail_is_measured_alone(rig: Rig) -> None:
    result = rig.run(only=RAIL_CHECK)
    assert rig.kinds == [f"all_reduce ib mlx5_ib{n}" for n in range(4)]
    assert [(f.subject, f.status, f.value) for f in result.findings] == [
        (f"rack01 mlx5_ib{n}", Status.PASS, 95.0) for n in range(4)
    ]
    assert {m["metric"] for m in result.measurements} == {f"nccl.all_reduce-mlx5_ib{n}.busbw" for n in range(4)}


def test_a_rail_below_its_share_of_the_floor_leads_to_its_node(rig: Rig) -> None:
    finding = culprit(rig, "slow 10.0.0.3 300 mlx5_ib1", only=RAIL_CHECK)
    assert (finding.check, finding.node, finding.status) == (f"{RAIL_CHECK}.slow-node", "rack01-n03", Status.FAIL)
    assert "mlx5_ib1" in finding.subject and finding.value == 30.0


def test_a_rail_behind_the_others_is_found_though_it_holds_the_floor(rig: Rig) -> None:
    finding = culprit(rig, "slow 10.0.0.3 760 mlx5_ib1", only=RAIL_CHECK)
    assert (finding.check, finding.node, finding.status) == (f"{RAIL_CHECK}.slow-node", "rack01-n03", Status.WARN)
    assert finding.source == "the other rails of this rack, in this run" and finding.value == 76.0


def test_a_rail_that_was_slow_once_is_asked_again_and_not_blamed(rig: Rig) -> None:
    """The second rail holds its floor and falls behind the others; when all four were run it has passed."""
    rig.plant("slow 10.0.0.3 760 mlx5_ib1")

    def heal(requests: object) -> None:
        if len(rig.runs) == 4:
            (rig.nodes.tools / "faults").write_text("")

    rig.nodes.watch = heal  # type: ignore[assignment]
    result = rig.run(only=RAIL_CHECK)
    assert bad(result) == [] and len(rig.runs) == 5
    assert all(f.status is Status.PASS for f in result.findings)


def test_rails_that_are_all_slow_alike_are_one_warning_and_nobody_is_blamed(rig: Rig) -> None:
    """As GB300 nodes with one network card for four GPUs and Data Direct."""
    rig.plant("slow 10.0.0.3 500 ib", "slow 10.0.0.4 500 ib")
    [finding] = bad(rig.run(only=RAIL_CHECK))
    assert (finding.check, finding.status, finding.node) == (f"{RAIL_CHECK}.all-slow", Status.WARN, "")
    assert "NCCL_IB_DATA_DIRECT" in finding.cause and finding.action is Action.INVESTIGATE
    assert len(rig.runs) == 4


def test_a_suspect_of_earlier_tests_explains_slow_rails(rig: Rig) -> None:
    rig.plant("slow 10.0.0.3 300 ib")
    result = rig.run(only=RAIL_CHECK, suspects=["rack01-n03"])
    slow = [f for f in result.findings if f.check == f"{RAIL_CHECK}.slow"]
    assert len(slow) == 4 and all(f.cause.startswith("rack01-n03; without") for f in slow)
    assert len(rig.runs) == 8
