"""From findings to a rack's verdict, and to the statement a scheduler needs: which nodes are usable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ndctl.model.answers import NodeAnswer
from ndctl.model.errors import ExitCode
from ndctl.model.findings import Finding, NodeResult, RackResult
from ndctl.model.places import Node
from ndctl.model.status import Status, Verdict, worst_status

REACHABLE = "host.reachable"
PRESENT = "host.present"


def node_result(node: Node, answer: NodeAnswer | None, findings: Iterable[Finding]) -> NodeResult:
    """A node's status is its worst finding of its own; what another part's root cause explains does not count."""
    own = [f.status for f in findings if f.node == node.name and not f.caused_by and f.status is not Status.SKIP]
    status = worst_status(own) if answer is not None and answer.outcome.ok else Status.UNKNOWN
    return NodeResult(
        name=node.name,
        status=status,
        address=node.address,
        outcome=answer.outcome.kind.value if answer else "not-asked",
        detail=answer.outcome.detail if answer else "",
        instance_id=node.instance_id,
        vm_id=node.vm_id,
        physical_host=node.physical_host,
    )


def rack_verdict(
    findings: Sequence[Finding],
    nodes: Sequence[NodeResult],
    expected_nodes: int,
    required: Collection[str],
    waived: Collection[str] = (),
) -> Verdict:
    """rejected: something failed · incomplete: nodes missing or unknown, or a required check skipped ·
    degraded: warnings only · accepted.

    required: ids of checks whose skip or absence makes the rack incomplete, unless they are in `waived`
    (switched off in the inventory). What a root cause explains is not counted again.
    """
    standing = [f for f in findings if not f.caused_by]
    if any(f.status is Status.FAIL for f in standing):
        return Verdict.REJECTED
    if len(nodes) < expected_nodes or not nodes or any(n.status is Status.UNKNOWN for n in nodes):
        return Verdict.INCOMPLETE
    if any(f.status is Status.UNKNOWN for f in standing):
        return Verdict.INCOMPLETE
    for check in required:
        if check in waived:
            continue
        of_check = [f for f in findings if belongs(f.check, check)]
        if not of_check or any(f.status is Status.SKIP for f in of_check):
            return Verdict.INCOMPLETE
    if any(f.status is Status.WARN for f in standing):
        return Verdict.DEGRADED
    return Verdict.ACCEPTED


def belongs(finding_check: str, check: str) -> bool:
    """Whether a finding's id is of this check: the id itself, or "<id>.<detail>"."""
    return finding_check == check or finding_check.startswith(check + ".")


def usable(nodes: Iterable[NodeResult]) -> tuple[str, ...]:
    return tuple(n.name for n in nodes if n.status in (Status.PASS, Status.WARN))


def exit_code(racks: Iterable[RackResult]) -> ExitCode:
    """7 when a rack is rejected, else 8 when one is incomplete, else 0."""
    verdicts = {rack.verdict for rack in racks}
    if Verdict.REJECTED in verdicts:
        return ExitCode.REJECTED
    if Verdict.INCOMPLETE in verdicts or not verdicts:
        return ExitCode.INCOMPLETE
    return ExitCode.OK


def reachability(answers: Mapping[Node, NodeAnswer]) -> list[Finding]:
    """A finding for each node that gave no usable answer; silence is unknown, never healthy and never broken."""
    findings = []
    for node, answer in answers.items():
        outcome = answer.outcome
        if outcome.ok:
            findings.append(
                Finding(check=REACHABLE, status=Status.PASS, subject="SSH", node=node.name, message="answered")
            )
            continue
        findings.append(
            Finding(
                check=REACHABLE,
                status=Status.UNKNOWN,
                subject="SSH",
                node=node.name,
                message=f"{outcome.kind.value}: {outcome.detail or 'no answer'}",
                cause=outcome.hint,
            )
        )
    return findings
