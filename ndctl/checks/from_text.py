"""A node check made from the judge of one tool's text: what is missing is unknown, what is there is judged."""

from __future__ import annotations

from collections.abc import Callable
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
    if (
        result is not None
        and not result.timed_out
        and not result.missing_tool
        and result.exit_code is not None
        and not refused_root(result)
    ):
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


def refused_root(result: CommandResult) -> bool:
    """Whether the command never ran because the login user may not become root."""
    return result.exit_code == 126 and "no right to run this as root" in result.stderr


def both_streams(result: CommandResult) -> str:
    """What a tool said, on both of its streams."""
    return result.stdout + ("\n" + result.stderr if result.stderr.strip() else "")


def _why(result: CommandResult | None, answer: NodeAnswer, command: Command) -> tuple[str, str, Action]:
    if result is None:
        outcome = answer.outcome
        said = outcome.detail if outcome.ok else f"{outcome.kind.value} {outcome.detail}"
        return f"no answer: {said}".strip().rstrip(":"), outcome.hint, Action.NONE
    if result.timed_out:
        return (
            f"no answer within {command.timeout_s:g} s",
            "the tool hangs: often a wedged driver or a process in D state",
            Action.INVESTIGATE,
        )
    if refused_root(result):
        return (
            f"not asked: {result.stderr.strip()[:160]}",
            "the login user needs sudo without a password, or to be root",
            Action.FIX_IMAGE,
        )
    if result.missing_tool:
        said = next((line.strip() for line in result.stderr.splitlines() if line.strip()), "")
        tool = command.shell.split()[0]
        plain = tool.replace("-", "").replace("_", "").isalnum() and tool not in ("for", "printf", "if")
        return (
            f"{tool} is not installed" if plain else f"a tool is not installed: {said[:120]}",
            "the image lacks the tool",
            Action.FIX_IMAGE,
        )
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
        text = both_streams(result) if with_stderr else result.stdout
        if result.truncated:
            text += "\n"
        said = judge.judge(judge.parse(text), profile)
        if not said:
            return [_nothing_to_judge(check, answer, command)]
        return [of_node(check, finding, answer, command) for finding in said if keep(finding)]

    return judged


def of_node(check: str, finding: Finding, answer: NodeAnswer, command: Command) -> Finding:
    """The finding as this check's, of this node."""
    tail = finding.check.rpartition(".")[2]
    label = check if finding.status is Status.PASS or check.endswith("." + tail) else f"{check}.{tail}"
    return replace(finding, check=label, node=answer.node.name, evidence=evidence(answer, command))


def _nothing_to_judge(check: str, answer: NodeAnswer, command: Command) -> Finding:
    return Finding(
        check=check,
        status=Status.UNKNOWN,
        subject=command.id,
        node=answer.node.name,
        message="the text says nothing that can be judged",
        evidence=evidence(answer, command),
    )
