"""What the burn-in jobs share: one bounded script on each node side by side, its answer or why there is none, and
figures of every GPU that are measured twice where somebody stands accused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ndctl.checks.gpus import gpus_of
from ndctl.checks.gpus import subject as gpu_subject
from ndctl.jobs.active.base import Outcome, RackUnderTest
from ndctl.jobs.gpu_figures import Key, Metric, accused, crowd_is_slow, judge
from ndctl.jobs.nccl_scripts import end_script
from ndctl.model.answers import Command, CommandResult, NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.runner import NodeRunner
from ndctl.model.status import Action, Status

ENDED = (124, 137, 143)  # `timeout`, or killed


def indices(rack: RackUnderTest, node: Node) -> list[int]:
    """The GPUs of a node as nvidia-smi lists them; where it was not asked, as many as the profile says."""
    facts = gpus_of(rack.answers[node]) if isinstance(rack.answers.get(node), NodeAnswer) else None
    if facts is not None and facts.gpus and not facts.cut:
        return [gpu.index for gpu in facts.gpus]
    return list(range(rack.profile.gpu.count.value))


def subject_of(rack: RackUnderTest, key: Key) -> str:
    """ "GPU 2 (0018:01:00.0, serial 1650…)", as far as nvidia-smi told."""
    node = next((node for node in rack.nodes if node.name == key[0]), None)
    answer = rack.answers.get(node) if node is not None else None
    facts = gpus_of(answer) if isinstance(answer, NodeAnswer) else None
    gpu = next((gpu for gpu in facts.gpus if gpu.index == key[1]), None) if facts is not None else None
    return gpu_subject(gpu) if gpu is not None else f"GPU {key[1]}"


def find_program(variable: str, name: str, *patterns: str) -> str:
    """sh text that sets `variable` to the program: in PATH, else the last match of the patterns, which are paths of the
    node's own file system; ends with 127 where there is none."""
    places = " ".join(f'"$NDCTL_SYSROOT"{pattern}' for pattern in patterns)
    return (
        f'{variable}=$(command -v {name}) || {{ {variable}=; for c in {places}; do [ -x "$c" ] && {variable}=$c; done; '
        f'}}; [ -n "${variable}" ] || {{ echo "{name}: not found" >&2; exit 127; }}; '
    )


def ask_side_by_side(
    rack: RackUnderTest, commands: Mapping[Node, Sequence[Command]], token: str
) -> Mapping[Node, NodeAnswer]:
    """All nodes at the same time. Whatever of it runs is ended when somebody interrupts, or the runner raises."""
    nodes = tuple(commands)
    end = partial(end_on_nodes, rack.runner, nodes, token)
    with rack.stopping.ended_by(end):
        try:
            return rack.runner.ask(commands)
        except BaseException:
            end()
            raise


def end_on_nodes(runner: NodeRunner, nodes: Sequence[Node], token: str) -> None:
    runner.ask({node: [Command("burn-in-end", end_script(token), timeout_s=20, cap_bytes=4_000)] for node in nodes})


def why_no_answer(check: str, program: str, answer: NodeAnswer, command: Command) -> Finding | None:
    """The finding in place of a text: a program that is not there is skipped, a hang or a lost node is unknown."""
    result: CommandResult | None = answer.results.get(command.id)
    evidence = f"{answer.node.name}/{command.id}"
    if result is None:
        outcome = answer.outcome
        said = f"{outcome.kind.value} {outcome.detail}".strip()
        return no_result(check, answer.node.name, "all GPUs", f"no answer: {said}"[:240], evidence)
    if result.missing_tool:
        return missing(check, answer.node.name, program)
    if result.timed_out or result.exit_code is None:
        return hang(check, answer.node.name, "all GPUs", program, command.timeout_s, evidence)
    return None


def missing(check: str, node: str, program: str) -> Finding:
    return Finding(
        check=f"{check}.missing",
        status=Status.SKIP,
        subject="all GPUs",
        node=node,
        message=f"{program} is not installed",
        action=Action.FIX_IMAGE,
    )


def hang(check: str, node: str, subject: str, program: str, seconds: float, evidence: str) -> Finding:
    return Finding(
        check=f"{check}.hang",
        status=Status.UNKNOWN,
        subject=subject,
        node=node,
        message=f"{program} did not end within {seconds:.0f} s",
        cause="the tool or the driver hangs: often a wedged GPU, or a process in D state",
        action=Action.INVESTIGATE,
        evidence=evidence,
    )


def no_result(check: str, node: str, subject: str, message: str, evidence: str, cause: str = "") -> Finding:
    return Finding(
        check=f"{check}.no-result",
        status=Status.UNKNOWN,
        subject=subject,
        node=node,
        message=message,
        cause=cause or "nothing was measured",
        action=Action.INVESTIGATE,
        evidence=evidence,
    )


def folded(findings: Sequence[Finding], rack: RackUnderTest) -> list[Finding]:
    """A program that is missing on every node is one skip of the rack."""
    absent = [f for f in findings if f.status is Status.SKIP and f.check.endswith(".missing")]
    if absent and {f.node for f in absent} == {node.name for node in rack.nodes}:
        one = absent[0]
        told = Finding(
            check=one.check.removesuffix(".missing"),
            status=Status.SKIP,
            subject=rack.rack,
            message=f"{one.message} on any of the {len(rack.nodes)} nodes",
            action=one.action,
        )
        return [told, *(f for f in findings if f not in absent)]
    return list(findings)


@dataclass(slots=True)
class NodeFigures:
    """What one node gave. values: name of a metric -> GPU index -> figure; problems: findings in place of figures."""

    values: dict[str, dict[int, float]] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)
    text: str = ""


Ask = Callable[[Sequence[Node], int], Mapping[Node, NodeFigures]]
"""Measures these nodes; the number is 1 for the first measurement, 2 for that of the accused."""


def of_all(figures: Mapping[Node, NodeFigures], metric: Metric) -> dict[Key, float]:
    return {
        (node.name, index): value
        for node, one in figures.items()
        for index, value in one.values.get(metric.name, {}).items()
    }


def to_ask_again(nodes: Sequence[Node], metrics: Sequence[Metric], figures: Mapping[Node, NodeFigures]) -> list[Node]:
    """The nodes of whoever is accused; all of them where the whole rack is slow."""
    every = {metric.name: of_all(figures, metric) for metric in metrics}
    if any(crowd_is_slow(metric, every[metric.name]) for metric in metrics):
        return list(nodes)
    names = {key[0] for metric in metrics for key in accused(metric, every[metric.name])}
    return [node for node in nodes if node.name in names]


def measure_twice(rack: RackUnderTest, metrics: Sequence[Metric], ask: Ask, command: str, step: str) -> Outcome:
    """The figures of all nodes, once more of the nodes where somebody is accused, and what both say.

    command: id of the kept text, with "-1" or "-2" behind it
    """
    outcome = Outcome()
    rack.say(step, f"{len(rack.nodes)} nodes", "running")
    first = ask(rack.nodes, 1)
    keep(outcome, first, f"{command}-1")
    measured(outcome, metrics, first)
    suspects = to_ask_again(rack.nodes, metrics, first)
    again: Mapping[Node, NodeFigures] = {}
    why = ""
    if suspects:
        why = rack.may_go_on()
        if not why:
            rack.say(step, f"once more on {', '.join(node.name for node in suspects[:4])}", "running")
            again = ask(suspects, 2)
            keep(outcome, again, f"{command}-2")
            why = next((p.message for one in again.values() for p in one.problems), "")
    outcome.findings += judged(rack, metrics, first, again, why, f"{command}-1")
    return outcome


def judged(
    rack: RackUnderTest,
    metrics: Sequence[Metric],
    first: Mapping[Node, NodeFigures],
    again: Mapping[Node, NodeFigures],
    why_not_again: str,
    command: str,
) -> list[Finding]:
    findings = folded([problem for one in first.values() for problem in one.problems], rack)
    told = {(f.node, f.subject) for f in findings}
    for metric in metrics:
        every = of_all(first, metric)
        for node, one in first.items():
            if one.problems and not one.values:
                continue
            for index in indices(rack, node):
                subject = subject_of(rack, (node.name, index))
                if (node.name, index) not in every and (node.name, subject) not in told:
                    evidence = f"{node.name}/{command}"
                    said = f"no figure of {metric.title}"
                    findings.append(no_result(metric.check, node.name, subject, said, evidence))
        findings += judge(
            metric,
            rack.rack,
            every,
            of_all(again, metric),
            why_not_again,
            partial(subject_of, rack),
            lambda key: f"{key[0]}/{command}",
        )
    if not findings:
        findings.append(no_result(metrics[0].check, "", rack.rack, "nothing was measured", ""))
    return findings


def keep(outcome: Outcome, figures: Mapping[Node, NodeFigures], command: str) -> None:
    outcome.texts += [(node.name, command, one.text) for node, one in figures.items() if one.text]


def measured(outcome: Outcome, metrics: Sequence[Metric], figures: Mapping[Node, NodeFigures]) -> None:
    for metric in metrics:
        outcome.measurements += [
            {"node": name, "metric": metric.name, "subject": f"GPU {index}", "value": value, "unit": metric.unit}
            for (name, index), value in sorted(of_all(figures, metric).items())
        ]
