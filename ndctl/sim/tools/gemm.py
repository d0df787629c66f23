"""ubergemm and dcgmproftester: programs that load one GPU for a while, and what they print.

ubergemm: options and the lines `…starting....` and `GFlops:1.7933e+06` as Azure's gpu_test reads them; nothing else of
its output is public. dcgmproftester: the lines of public issues.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import load, seeds
from ndctl.sim.world.parts import Gpu
from ndctl.sim.world.view import NodeView

PROGRAMS = ("ubergemm", "dcgmproftester13")
# How much shorter a load takes here: 60 s of a node are 4 s.
_SHORTER = 15.0
_WITHOUT_PROFILE_TFLOPS = 769.0  # H100
_FIRST_IS_SLOWER = 0.012  # GPU 0 of a GB300 tray
_runs = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Load:
    """A load to be run: on which GPU, how long by the node's clock and by the simulator's, and what is printed."""

    gpu: Gpu
    node_s: float
    real_s: float
    answer: Answer


def load_of(
    tool: str, view: NodeView, arguments: Sequence[str], environment: Mapping[str, str], seed: str
) -> Load | Answer:
    """The load, or an answer at once where there is none to run."""
    values = {name: value for name, value in itertools.pairwise([*arguments, ""]) if name.startswith("-")}
    gemm = tool == "ubergemm"
    try:
        wanted = int(values.get("--adapters", "0")) if gemm else int(environment.get("CUDA_VISIBLE_DEVICES", "0") or 0)
        seconds = float(values.get("--time_to_run" if gemm else "-d", "60"))
    except ValueError:
        return Answer(err="invalid argument\n", code=1)
    gpus = view.live_gpus
    if not 0 <= wanted < len(gpus):
        return Answer(err="CUDA_ERROR_INVALID_DEVICE: invalid device ordinal\n", code=1)
    gpu = gpus[wanted]
    text = _ubergemm(gpu, view, seed) if gemm else _proftester(seconds)
    return Load(gpu, seconds, seconds / _SHORTER, Answer(text, keep=False))


def _ubergemm(gpu: Gpu, view: NodeView, seed: str) -> str:
    bounds = view.shape.profile.gpu.gemm_tflops
    healthy = bounds.expected.value if bounds is not None else _WITHOUT_PROFILE_TFLOPS
    own = seeds.noise(0.01, "gemm", gpu.uuid) - (_FIRST_IS_SLOWER if gpu.index == 0 else 0.0)
    run = next(_runs)
    text = f"ubergemm: adapter {gpu.index} {gpu.name}\n"
    for step in range(3):
        text += f"tuning {step} GFlops:{healthy * 1e3 * (0.55 + 0.12 * step) * load.speed(gpu):.4e}\n"
    text += "starting....\n"
    for step in range(10):
        gflops = healthy * 1e3 * own * load.speed(gpu) * seeds.noise(0.004, seed, "gemm", gpu.uuid, run, step)
        text += f"GFlops:{gflops:.4e}\n"
    return text


def _proftester(seconds: float) -> str:
    text = "Skipping CreateDcgmGroups() since DCGM validation is disabled\n"
    return text + "Worker 0:0[1004]: TensorEngineActive: target max, dcgm 0\n" * max(1, int(seconds // 10))
