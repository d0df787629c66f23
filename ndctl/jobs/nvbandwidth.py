"""nvbandwidth on each node by itself, side by side: copies inside a GPU's memory, and between a GPU and its CPU.

Azure's HPC images have it in /opt/nvidia/nvbandwidth (azhpc-images, install_nvbandwidth_tool.sh). Copies are done one
GPU after the other, so that a figure belongs to one GPU.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ndctl.checks.texts.nvbandwidth import judge as judge_text
from ndctl.jobs.active.base import Outcome, RackUnderTest
from ndctl.jobs.burn_in import (
    ENDED,
    NodeFigures,
    ask_side_by_side,
    find_program,
    hang,
    indices,
    measure_twice,
    no_result,
    why_no_answer,
)
from ndctl.jobs.gpu_figures import Metric
from ndctl.model.answers import Command, CommandResult
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Status
from ndctl.parse.nvbandwidth import Nvbandwidth, parse

PROGRAM = "nvbandwidth"
PLACES = ("/usr/local/bin/nvbandwidth", "/opt/nvidia/nvbandwidth/nvbandwidth")
FIND = find_program("u", PROGRAM, *PLACES)
_SILENT = (Status.FAIL, Status.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Copies:
    """What one check asks of nvbandwidth. metrics: testcase -> the figure that its row gives."""

    check: str
    command: str
    metrics: Mapping[str, Metric]
    deadline_s: float = 120.0


def measure(rack: RackUnderTest, copies: Copies) -> Outcome:
    """The figures of all GPUs of the rack, judged; see `burn_in.measure_twice`."""

    def ask(nodes: Sequence[Node], turn: int) -> Mapping[Node, NodeFigures]:
        token = f"{rack.token}-{rack.rack}-{copies.command}{turn}"
        command = _command(copies, token, turn)
        answers = ask_side_by_side(rack, {node: [command] for node in nodes}, token)
        found = {}
        for node in nodes:
            problem = why_no_answer(copies.check, PROGRAM, answers[node], command)
            result = answers[node].results.get(command.id)
            if problem is not None or result is None:
                text = result.stdout + result.stderr if result is not None else ""
                found[node] = NodeFigures(problems=[problem] if problem is not None else [], text=text)
            else:
                found[node] = read(copies, node.name, result, indices(rack, node), f"{node.name}/{command.id}")
        return found

    return measure_twice(rack, list(copies.metrics.values()), ask, copies.command, PROGRAM)


def _command(copies: Copies, token: str, turn: int) -> Command:
    tests = " ".join(shlex.quote(test) for test in copies.metrics)
    shell = (
        f"export NDCTL_JOB={token}: CUDA_DEVICE_ORDER=PCI_BUS_ID; {FIND}"
        f'timeout -k 5 {copies.deadline_s:.0f} "$u" -t {tests}'
    )
    return Command(f"{copies.command}-{turn}", shell, timeout_s=copies.deadline_s + 30, cap_bytes=400_000)


def read(copies: Copies, node: str, result: CommandResult, gpus: Sequence[int], evidence: str) -> NodeFigures:
    """The figures in one node's output; what is wrong with it, or missing of it, is a finding."""
    text = result.stdout + result.stderr
    found = NodeFigures(text=text)
    if result.exit_code in ENDED:
        found.problems.append(hang(copies.check, node, "all GPUs", PROGRAM, copies.deadline_s, evidence))
        return found
    facts = parse(text)
    found.problems += complaints(facts, copies.check, node, evidence)
    if result.exit_code != 0 and not found.problems:
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")
        message = f"{PROGRAM} ended with code {result.exit_code}: {last[:200]}"
        found.problems.append(no_result(copies.check, node, "all GPUs", message, evidence))
    if facts.cut or result.truncated or any(problem.status is Status.UNKNOWN for problem in found.problems):
        return found
    for test, metric in copies.metrics.items():
        rows = [one.values for one in facts.tests if one.name == test and one.status == "passed"]
        row = rows[-1][0] if rows and len(rows[-1]) == 1 else ()
        if len(row) != len(gpus):
            message = f"{test} shows {len(row)} GPUs, nvidia-smi {len(gpus)}" if row else f"no result of {test}"
            found.problems.append(no_result(copies.check, node, "all GPUs", message, evidence))
            continue
        found.values[metric.name] = {
            index: value for index, value in zip(gpus, row, strict=True) if value is not None and value > 0
        }
    return found


def complaints(facts: Nvbandwidth, check: str, node: str, evidence: str) -> list[Finding]:
    """What the tool itself says went wrong, as this check's findings of this node; figures are judged elsewhere."""
    found = []
    for one in judge_text(facts, None):
        word = one.check.rpartition(".")[2]
        if one.status in _SILENT and word not in ("bandwidth", "no-result"):
            subject = one.subject if one.subject not in ("run", "output") else "all GPUs"
            found.append(replace(one, check=f"{check}.{word}", node=node, subject=subject, evidence=evidence))
    return found
