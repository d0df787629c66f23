"""One GEMM load and its two judges, with real scripts: who is slow or hot is named, what gave no answer is no pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ndctl.jobs import gemm
from ndctl.jobs.gpu_load import judge_gemm, judge_thermals
from ndctl.model.answers import Command
from ndctl.model.places import Node
from ndctl.model.status import Action, Status
from tests.jobs.burn_in_lab import BurnInLab, bad


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BurnInLab:
    monkeypatch.setattr(gemm, "_PAUSE_S", 1)
    return BurnInLab(tmp_path)


def loads(lab: BurnInLab) -> list[list[str]]:
    """The nodes of each load, in order."""
    return [
        list(asked)
        for asked in lab.nodes.asked
        if any("gpu-load" in command for one in asked.values() for command in one)
    ]


def test_a_healthy_rack_passes_both_by_one_load(lab: BurnInLab) -> None:
    gemm_said, heat_said = lab.run(judge_gemm), lab.run(judge_thermals)
    assert [f.status for f in (*gemm_said.findings, *heat_said.findings)] == [Status.PASS, Status.PASS]
    assert len(loads(lab)) == 1
    assert len(gemm_said.measurements) == 32 and {m["value"] for m in gemm_said.measurements} == {1850.0}
    metrics = {m["metric"] for m in heat_said.measurements}
    assert metrics == {
        "gpu.thermals.sm-clock", "gpu.thermals.temperature", "gpu.thermals.memory-temperature",
    }  # fmt: skip
    assert len(gemm_said.texts) == 8 and heat_said.texts == []


def test_a_slow_gpu_is_loaded_once_more_and_named(lab: BurnInLab) -> None:
    lab.plant(3, "gemm2", "tflops=1600")
    (one,) = bad(lab.run(judge_gemm))
    assert (one.check, one.status, one.node, one.subject) == ("gpu.gemm.slow", Status.FAIL, "rack01-n03", "GPU 2")
    assert [len(nodes) for nodes in loads(lab)] == [8, 1] and loads(lab)[1] == ["rack01-n03"]
    assert one.evidence == "rack01-n03/gpu-load-1"


def test_slow_once_accuses_nobody(lab: BurnInLab) -> None:
    lab.plant(3, "gemm2", "[ $turn = 1 ] && tflops=1600")
    outcome = lab.run(judge_gemm)
    assert bad(outcome) == [] and "good when asked again" in outcome.findings[0].message


def test_slow_once_and_not_asked_again_is_unknown(lab: BurnInLab) -> None:
    lab.plant(3, "gemm2", "tflops=1600")
    lab.refused = "another test took the rack over"
    (one,) = bad(lab.run(judge_gemm))
    assert one.status is Status.UNKNOWN and "took the rack over" in one.message


def test_a_gpu_without_a_figure_is_unknown_with_what_it_said(lab: BurnInLab) -> None:
    lab.plant(5, "gemm1", "echo 'CUDA_ERROR_ECC_UNCORRECTABLE'; exit 3")
    (one,) = bad(lab.run(judge_gemm))
    assert (one.status, one.node, one.subject) == (Status.UNKNOWN, "rack01-n05", "GPU 1")
    assert "code 3" in one.message and "ECC_UNCORRECTABLE" in one.message


def test_a_load_that_does_not_end_is_ended_and_unknown(lab: BurnInLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "_START_S", -58)  # of 60 s
    lab.plant(5, "gemm1", "trap '' TERM; sleep 300")
    monkeypatch.setattr(lab.nodes, "nodes", lab.nodes.nodes[4:5])
    (one,) = bad(lab.run(judge_gemm))
    assert (one.check, one.status, one.subject) == ("gpu.gemm.hang", Status.UNKNOWN, "GPU 1")


def test_a_hot_gpu_is_named_and_its_slowdown_measured_by_the_counters(lab: BurnInLab) -> None:
    lab.plant(2, "hot1")
    found = bad(lab.run(judge_thermals))
    assert {(f.node, f.subject) for f in found} == {("rack01-n02", "GPU 1")}
    assert {f.check: f.status for f in found} == {
        "gpu.thermals.throttled": Status.FAIL,
        "gpu.thermals.hbm-hot": Status.FAIL,
        "gpu.thermals.hotter": Status.WARN,
    }
    assert all(f.cause and f.action is not Action.NONE and f.expected and f.source for f in found)
    assert bad(lab.run(judge_gemm)) == []


def test_ubergemm_missing_everywhere_is_one_skip_that_names_the_image(lab: BurnInLab) -> None:
    (lab.nodes.tools / "ubergemm").unlink()
    for check in (judge_gemm, judge_thermals):
        (one,) = lab.run(check).findings
        assert (one.status, one.action, one.subject) == (Status.SKIP, Action.FIX_IMAGE, "rack01")


def test_with_dcgmproftester_heat_is_judged_and_the_rate_is_not(lab: BurnInLab) -> None:
    (lab.nodes.tools / "ubergemm").unlink()
    lab.nodes.tool("dcgmproftester13", 'echo "Worker 0:0[1004]: TensorEngineActive: target max, dcgm 0"')
    (one,) = lab.run(judge_gemm).findings
    assert one.status is Status.SKIP and "dcgmproftester13 loads GPUs without a figure" in one.message
    assert [f.status for f in lab.run(judge_thermals).findings] == [Status.PASS]


def test_an_older_driver_that_knows_no_counters_is_asked_for_what_it_knows(lab: BurnInLab) -> None:
    for number in range(1, 9):
        lab.plant(number, "smi", 'case $1 in *_counters* | *event_reasons*) echo "Field is not valid"; exit 2 ;; esac')
    (one,) = lab.run(judge_thermals).findings
    assert one.status is Status.PASS and "sampled only on 32 GPUs" in one.message


def test_without_any_sample_nothing_vouches_for_the_gpus(lab: BurnInLab) -> None:
    lab.plant(4, "smi", "echo 'Unable to determine the device handle' >&2; exit 9")
    found = bad(lab.run(judge_thermals))
    assert [(f.check, f.status, f.node) for f in found] == [("gpu.thermals.no-result", Status.UNKNOWN, "rack01-n04")]


def test_a_node_that_is_gone_costs_only_its_own_answer(lab: BurnInLab) -> None:
    lab.nodes.away.add("rack01-n06")
    (one,) = bad(lab.run(judge_gemm))
    assert (one.status, one.node) == (Status.UNKNOWN, "rack01-n06") and "unreachable" in one.message


def test_ctrl_c_ends_what_runs_on_the_nodes(lab: BurnInLab) -> None:
    ended: list[str] = []

    def watch(requests: Mapping[Node, Sequence[Command]]) -> None:
        ids = [command.id for commands in requests.values() for command in commands]
        ended.extend(one for one in ids if one == "burn-in-end")
        if "gpu-load-1" in ids:
            raise KeyboardInterrupt

    lab.nodes.watch = watch
    with pytest.raises(KeyboardInterrupt):
        lab.run(judge_gemm)
    assert len(ended) == 8 and lab.shared == {}


@pytest.mark.parametrize("cut", [10, 200, 900, 2000])
def test_a_script_that_broke_off_is_no_result(lab: BurnInLab, cut: int) -> None:
    whole = lab.nodes.ask({lab.nodes.nodes[0]: [gemm.load_command("x", [0, 1, 2, 3], "t")]})
    result = whole[lab.nodes.nodes[0]].results["x"]
    from dataclasses import replace

    assert gemm.read_load(result).complete
    assert not gemm.read_load(replace(result, stdout=result.stdout[:cut])).complete
