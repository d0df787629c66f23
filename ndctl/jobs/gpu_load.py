"""One GEMM load over a rack, that two checks judge: what it reached, and what clocks and temperatures did meanwhile.

It is run by whichever of them comes first and kept for the other. The nodes where either accuses somebody are loaded
once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ndctl.jobs.active.base import Outcome, RackUnderTest
from ndctl.jobs.burn_in import (
    ENDED,
    NodeFigures,
    ask_side_by_side,
    folded,
    hang,
    indices,
    judged,
    keep,
    measured,
    no_result,
    subject_of,
    to_ask_again,
    why_no_answer,
)
from ndctl.jobs.gemm import SECONDS, NodeLoad, load_command, read_load
from ndctl.jobs.gpu_figures import Key, Limits, Metric
from ndctl.jobs.thermals import CHECK as THERMALS
from ndctl.jobs.thermals import Heat, clock_metric, findings_of, heats, troubles
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status
from ndctl.profiles.schema import Profile

GEMM = "gpu.gemm"
COMMAND = "gpu-load"
_SHARED = "gpu-load"
_PROGRAM = "ubergemm"


@dataclass(slots=True)
class NodeRun:
    """load is None where the node gave none; `problem` is the finding that says why."""

    load: NodeLoad | None
    text: str = ""
    problem: Finding | None = None


@dataclass(slots=True)
class RackLoad:
    """first: of all nodes; again: of those where somebody is accused; why_not_again: why there is none."""

    first: Mapping[Node, NodeRun]
    again: Mapping[Node, NodeRun] = field(default_factory=dict)
    why_not_again: str = ""
    asked_again: bool = False


def gemm_metric(profile: Profile) -> Metric:
    return Metric(
        check=GEMM,
        name="gpu.gemm",
        title="GEMM",
        unit="TFLOPS",
        limits=Limits.of_bounds(profile.gpu.gemm_tflops),
        cause="lower clocks (heat, power) or a degraded GPU",
        action=Action.REPLACE_AND_REPORT,
        category="Resource.Hpc.Unhealthy.HpcGenericFailure",
    )


def judge_gemm(rack: RackUnderTest) -> Outcome:
    outcome, load = _load(rack)
    metric = gemm_metric(rack.profile)
    first = {node: _gemm_of(run, rack, node, 1) for node, run in load.first.items()}
    again = {node: _gemm_of(run, rack, node, 2) for node, run in load.again.items()}
    measured(outcome, [metric], first)
    outcome.findings += judged(rack, [metric], first, again, load.why_not_again, f"{COMMAND}-1")
    return outcome


def judge_thermals(rack: RackUnderTest) -> Outcome:
    outcome, load = _load(rack)
    clock = clock_metric()
    every, repeated = _heats(load.first), _heats(load.again)
    clocks = {node: _clocks_of(run) for node, run in load.first.items()}
    measured(outcome, [clock], clocks)
    outcome.measurements += _temperatures(every)
    findings = folded([_of_thermals(run.problem) for run in load.first.values() if run.problem is not None], rack)
    findings += _blind(every)
    evidence = partial(_evidence)
    first = troubles(every, rack.profile)
    again = troubles(repeated, rack.profile, every) if load.asked_again else None
    findings += findings_of(first, again, partial(subject_of, rack), evidence)
    if any(clocks[node].values for node in clocks):
        second = {node: _clocks_of(run) for node, run in load.again.items()}
        told = judged(rack, [clock], clocks, second, load.why_not_again, f"{COMMAND}-1")
        findings += [f for f in told if f.check.startswith(f"{THERMALS}.clock-")]
    if not findings:
        findings.append(_all_is_well(rack, every))
    outcome.findings += findings
    return outcome


def _load(rack: RackUnderTest) -> tuple[Outcome, RackLoad]:
    """The rack's load, run now or by the check before; who runs it keeps its texts."""
    outcome = Outcome()
    kept = rack.shared.get(_SHARED)
    if isinstance(kept, RackLoad):
        return outcome, kept
    rack.say("GEMM", f"{SECONDS} s on all GPUs of {len(rack.nodes)} nodes", "running")
    load = RackLoad(_run(rack, rack.nodes, 1))
    suspects = _suspects(rack, load.first)
    if suspects:
        load.why_not_again = rack.may_go_on()
    if suspects and not load.why_not_again:
        rack.say("GEMM", f"once more on {', '.join(node.name for node in suspects[:4])}", "running")
        load.again = _run(rack, suspects, 2)
        load.asked_again = all(run.load is not None for run in load.again.values())
        load.why_not_again = next((run.problem.message for run in load.again.values() if run.problem), "")
    for turn, runs in ((1, load.first), (2, load.again)):
        keep(outcome, {node: NodeFigures(text=run.text) for node, run in runs.items()}, f"{COMMAND}-{turn}")
    rack.shared[_SHARED] = load
    return outcome, load


def _run(rack: RackUnderTest, nodes: Sequence[Node], turn: int) -> dict[Node, NodeRun]:
    token = f"{rack.token}-{rack.rack}-load{turn}"
    commands = {node: load_command(f"{COMMAND}-{turn}", indices(rack, node), token) for node in nodes}
    answers = ask_side_by_side(rack, {node: [command] for node, command in commands.items()}, token)
    runs = {}
    for node, command in commands.items():
        problem = why_no_answer(GEMM, _PROGRAM, answers[node], command)
        result = answers[node].results.get(command.id)
        text = result.stdout + result.stderr if result is not None else ""
        load = read_load(result) if result is not None and problem is None else None
        if load is not None and not load.complete:
            said = result.stderr.strip().splitlines()[-1:] if result is not None else []
            message = f"the load broke off{': ' + said[0][:200] if said else ''}"
            problem = no_result(GEMM, node.name, "all GPUs", message, f"{node.name}/{command.id}")
            load = None
        runs[node] = NodeRun(load, text, problem)
    return runs


def _suspects(rack: RackUnderTest, first: Mapping[Node, NodeRun]) -> list[Node]:
    gemm = {node: _gemm_of(run, rack, node, 1) for node, run in first.items()}
    clocks = {node: _clocks_of(run) for node, run in first.items()}
    names = {node.name for node in to_ask_again(rack.nodes, [gemm_metric(rack.profile)], gemm)}
    names |= {node.name for node in to_ask_again(rack.nodes, [clock_metric()], clocks)}
    names |= {node for node, _, _ in troubles(_heats(first), rack.profile)}
    return [node for node in rack.nodes if node.name in names]


def _gemm_of(run: NodeRun, rack: RackUnderTest, node: Node, turn: int) -> NodeFigures:
    """The figures of a node's GPUs; what gave none is a finding."""
    figures = NodeFigures(text=run.text)
    evidence = f"{node.name}/{COMMAND}-{turn}"
    if run.load is None:
        figures.problems += [run.problem] if run.problem is not None else []
        return figures
    if run.load.program != _PROGRAM:
        figures.problems.append(_no_figure(node, run.load.program))
        return figures
    values: dict[int, float] = {}
    for index, gpu in run.load.gpus.items():
        subject = subject_of(rack, (node.name, index))
        if gpu.code in ENDED:
            figures.problems.append(hang(GEMM, node.name, subject, _PROGRAM, SECONDS * 2, evidence))
        elif gpu.code != 0 or gpu.facts.errors or gpu.facts.tflops is None:
            said = next(iter(gpu.facts.errors), "") or next(iter(gpu.facts.problems), "") or gpu.last_line
            code = "" if gpu.code in (0, None) else f" with code {gpu.code}"
            message = f"ubergemm ended{code} without a figure: {said or 'it printed nothing'}"
            cause = "the GPU, its driver or the program; see the kernel log"
            figures.problems.append(no_result(GEMM, node.name, subject, message[:300], evidence, cause))
        else:
            values[index] = gpu.facts.tflops
    figures.values = {"gpu.gemm": values}
    return figures


def _no_figure(node: Node, program: str) -> Finding:
    return Finding(
        check=f"{GEMM}.missing",
        status=Status.SKIP,
        subject="all GPUs",
        node=node.name,
        message=f"ubergemm is not installed, and {program} loads GPUs without a figure",
        action=Action.FIX_IMAGE,
    )


def _clocks_of(run: NodeRun) -> NodeFigures:
    if run.load is None:
        return NodeFigures(problems=[run.problem] if run.problem is not None else [])
    clocks = {index: heat.sm_mhz for index, heat in heats(run.load).items() if heat.sm_mhz is not None}
    return NodeFigures(values={"gpu.thermals.sm-clock": clocks})


def _heats(runs: Mapping[Node, NodeRun]) -> dict[Key, Heat]:
    return {
        (node.name, index): heat
        for node, run in runs.items()
        if run.load is not None
        for index, heat in heats(run.load).items()
    }


def _evidence(key: Key) -> str:
    return f"{key[0]}/{COMMAND}-1"


def _of_thermals(problem: Finding) -> Finding:
    return replace(problem, check=problem.check.replace(GEMM, THERMALS, 1))


def _blind(every: Mapping[Key, Heat]) -> list[Finding]:
    """Nodes whose clocks were never seen under load: nothing vouches for them."""
    blind: dict[str, list[int]] = {}
    for (node, index), heat in every.items():
        if heat.samples == 0 or (heat.celsius is None and heat.sm_mhz is None):
            blind.setdefault(node, []).append(index)
    return [
        no_result(
            THERMALS,
            node,
            "all GPUs" if len(gpus) > 1 else f"GPU {gpus[0]}",
            f"no sample under load of GPU {', '.join(map(str, gpus))}",
            _evidence((node, gpus[0])),
            "the load never came up, or nvidia-smi told neither clocks nor temperatures",
        )
        for node, gpus in sorted(blind.items())
    ]


def _temperatures(every: Mapping[Key, Heat]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for (node, index), heat in sorted(every.items()):
        for metric, value in (
            ("gpu.thermals.temperature", heat.celsius),
            ("gpu.thermals.memory-temperature", heat.memory_celsius),
        ):
            if value is not None:
                row = {"node": node, "metric": metric, "subject": f"GPU {index}", "value": value, "unit": "°C"}
                rows.append(row)
    return rows


def _all_is_well(rack: RackUnderTest, every: Mapping[Key, Heat]) -> Finding:
    hottest = max((h.celsius for h in every.values() if h.celsius is not None), default=None)
    memory = max((h.memory_celsius for h in every.values() if h.memory_celsius is not None), default=None)
    told = [f"GPU at most {hottest:g} °C" if hottest is not None else "GPU temperatures not told"]
    told.append(f"memory at most {memory:g} °C" if memory is not None else "memory temperatures not told")
    if any(heat.sm_mhz is None for heat in every.values()):
        told.append("clocks not told by all")
    counted = sum(heat.counted for heat in every.values())
    told.append(
        "no slowdown by the counters"
        if counted == len(every)
        else f"no slowdown, sampled only on {len(every) - counted} GPUs"
    )
    return Finding(
        check=THERMALS,
        status=Status.PASS,
        subject=rack.rack,
        value=hottest,
        unit="°C" if hottest is not None else "",
        message=f"{len(every)} GPUs under load: {', '.join(told)}",
    )
