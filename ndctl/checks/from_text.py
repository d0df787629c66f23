"""A node check made from the judge of one tool's text: what is missing is unknown, what is there is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ndctl.checks.texts.base import TextJudge
from ndctl.model.answers import Command, CommandResult, NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.profiles.schema import Profile

NodeJudge = Callable[[NodeAnswer, Profile], list[Finding]]


def evidence(answer: NodeAnswer, command: Command) -> str:
    """Where the raw text is in the run: `ndctl report RUN --raw NODE/COMMAND` prints it."""
    return f"{answer.node.name}/{command.id}"


def unusable(check: str, answer: NodeAnswer, command: Command) -> Finding | None:
    """A finding when the command gave no text to judge, else None. A command that failed but printed is judged."""
    result = answer.results.get(command.id)
    if result is not None and not result.timed_out and not result.missing_tool and result.exit_code is not None:
        return None
    message, cause, action = _why(result, answer, command)
    return Finding(
        check=check,
        status=Status.UNKNOWN,
        subject=command.id,
        node=answer.node.name,
        message=message,
        cause=cause,
        action=action,
        evidence=evidence(answer, command),
    )


def _why(result: CommandResult | None, answer: NodeAnswer, command: Command) -> tuple[str, str, Action]:
    if result is None:
        return f"no answer: {answer.outcome.kind.value} {answer.outcome.detail}".strip(), "", Action.NONE
    if result.timed_out:
        return (
            f"no answer within {result.seconds:.0f} s",
            "the tool hangs: often a wedged driver or a process in D state",
            Action.INVESTIGATE,
        )
    if result.missing_tool:
        return f"{command.shell.split()[0]} is not installed", "the image lacks the tool", Action.FIX_IMAGE
    return "cut off before it ended", "", Action.NONE


def node_judge(
    check: str,
    judge: TextJudge,
    command: Command,
    *,
    keep: Callable[[Finding], bool] = lambda finding: True,
    with_stderr: bool = True,
) -> NodeJudge:
    """A `judge_node` over one command's text.

    keep: which of the judge's findings belong to this check, where several checks share a text.
    The findings get the check's id before their own last word, the node and the evidence.
    """

    def judged(answer: NodeAnswer, profile: Profile) -> list[Finding]:
        missing = unusable(check, answer, command)
        if missing is not None:
            return [missing]
        result = answer.results[command.id]
        text = result.stdout + ("\n" + result.stderr if with_stderr and result.stderr.strip() else "")
        if result.truncated:
            text += "\n"
        found = [f for f in judge.judge(judge.parse(text), profile) if keep(f)]
        return [of_node(check, finding, answer, command) for finding in found]

    return judged


def of_node(check: str, finding: Finding, answer: NodeAnswer, command: Command) -> Finding:
    """The finding as this check's, of this node."""
    tail = finding.check.rpartition(".")[2]
    label = check if finding.status is Status.PASS or check.endswith("." + tail) else f"{check}.{tail}"
    return replace(finding, check=label, node=answer.node.name, evidence=evidence(answer, command))


def common(values: Sequence[str]) -> str:
    """The value most of the rack has, "" for none; ties go to the smaller text, so that the answer never wavers."""
    counts = {value: values.count(value) for value in set(values) if value}
    return min(counts, key=lambda value: (-counts[value], value), default="")
