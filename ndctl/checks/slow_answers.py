"""Why nodes did not answer in time, told apart: one tool that hangs, a node that is slow in all it does, or something
that all of them share (the machine ndctl runs on, the network), of which no single node is to blame. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ndctl.checks import commands
from ndctl.checks.verdict import REACHABLE
from ndctl.model.answers import NodeAnswer, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status

# They read a few files of the kernel: neither a driver nor a daemon makes them wait.
_CHEAP = (
    commands.IDENTITY.id,
    commands.PHYSICAL_HOST.id,
    commands.GPU_PCI.id,
    commands.GPU_DEVICE_FILES.id,
    commands.IMEX_NODE_LIST.id,
    commands.IB_SYSFS.id,
    commands.IB_COUNTERS_BEFORE.id,
    commands.IB_COUNTERS_AFTER.id,
)
_MANY = 3  # nodes that are slow at once, and
_MANY_SHARE = 0.2  # of those asked: several nodes freezing in the same minute have a cause in common


def explain_slow_answers(
    findings: Sequence[Finding], answers: Mapping[Node, NodeAnswer], client: str = ""
) -> list[Finding]:
    """The findings, those about answers that did not come in time with a cause that fits what else was slow.

    client: what is wrong with the machine ndctl runs on, "" when nothing is known to be
    """
    by_name = {node.name: answer for node, answer in answers.items()}
    slow = {name for name, answer in by_name.items() if _slow_in_all(answer)}
    shared = len(slow) >= max(_MANY, _MANY_SHARE * len(by_name))
    return [_explained(finding, by_name, slow, shared, client) for finding in findings]


def _slow_in_all(answer: NodeAnswer) -> bool:
    return answer.outcome.kind is OutcomeKind.TIMED_OUT or any(
        result.timed_out for command in _CHEAP if (result := answer.results.get(command))
    )


def _explained(
    finding: Finding, answers: Mapping[str, NodeAnswer], slow: set[str], shared: bool, client: str
) -> Finding:
    answer = answers.get(finding.node)
    if answer is None or finding.status is not Status.UNKNOWN or not _not_in_time(finding, answer):
        return finding
    if finding.node in slow and (shared or client):
        together = f"{len(slow)} of {len(answers)} nodes did not answer in time, not even with what only reads files: "
        common = client or "the machine ndctl runs on, the network to the nodes or storage they share is overloaded"
        return replace(finding, cause=(together if shared else "") + common, action=Action.WATCH)
    if finding.node in slow and finding.check != REACHABLE:
        cause = "the whole node is slow or frozen, not this tool alone: what only reads files did not answer in time"
        return replace(finding, cause=cause)
    return replace(finding, cause=f"{finding.cause}; or {client}".removeprefix("; or ")) if client else finding


def _not_in_time(finding: Finding, answer: NodeAnswer) -> bool:
    if finding.check == REACHABLE:
        return answer.outcome.kind is OutcomeKind.TIMED_OUT
    result = answer.results.get(finding.evidence.partition("/")[2])
    return result.timed_out if result is not None else answer.outcome.kind is OutcomeKind.TIMED_OUT
