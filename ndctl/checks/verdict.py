"""From findings to a rack's verdict, and to the statement a scheduler needs: which nodes are usable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ndctl.checks import commands
from ndctl.model.answers import NodeAnswer
from ndctl.model.errors import ExitCode
from ndctl.model.findings import Finding, NodeResult, RackResult
from ndctl.model.places import Node, Rack
from ndctl.model.status import Action, Status, Verdict, worst_status

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
        physical_host=node.physical_host or _physical_host(answer),
    )


def _physical_host(answer: NodeAnswer | None) -> str:
    """What the node itself says of the host it runs on: it is needed to report the node, and lost on a redeploy."""
    told = answer.results.get(commands.PHYSICAL_HOST.id) if answer else None
    lines = told.stdout.strip().splitlines() if told and told.exit_code == 0 else []
    return lines[-1].strip()[:128] if lines else ""


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
    (switched off in the inventory); where none is left, nothing was looked at, which is incomplete too.
    What a root cause explains is not counted again.
    """
    standing = [f for f in findings if not f.caused_by]
    if any(f.status is Status.FAIL for f in standing):
        return Verdict.REJECTED
    if len(nodes) < expected_nodes or not nodes or any(n.status is Status.UNKNOWN for n in nodes):
        return Verdict.INCOMPLETE
    if any(f.status is Status.UNKNOWN for f in standing):
        return Verdict.INCOMPLETE
    needed = [check for check in required if check not in waived]
    if not needed:
        return Verdict.INCOMPLETE
    skipped: dict[str, bool] = {}  # a rack has hundreds of findings, of a few dozen ids
    for f in findings:
        skipped[f.check] = skipped.get(f.check, False) or f.status is Status.SKIP
    for check in needed:
        of_check = [skip for id, skip in skipped.items() if belongs(id, check)]
        if not of_check or any(of_check):
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


def reachability(answers: Mapping[Node, NodeAnswer], asked: bool = True) -> list[Finding]:
    """A finding for each node, so that silence is told: unknown, never healthy and never broken.

    asked: whether nodes were asked anything; an answer without any result then says nothing (no `timeout` there,
    no place to write), however well the connection went.
    """
    findings = []
    for node, answer in answers.items():
        outcome = answer.outcome
        if outcome.ok and (answer.results or not asked):
            findings.append(
                Finding(check=REACHABLE, status=Status.PASS, subject="SSH", node=node.name, message="answered")
            )
            continue
        said = outcome.detail or ("it ran none of the commands" if outcome.ok else "no answer")
        azure = f"; Azure says {node.state}" if node.state else ""
        findings.append(
            Finding(
                check=REACHABLE,
                status=Status.UNKNOWN,
                subject="SSH",
                node=node.name,
                message=f"answered, and told nothing: {said}" if outcome.ok else f"{outcome.kind.value}: {said}{azure}",
                cause=outcome.hint or ("the image lacks a tool, or its disks are full" if outcome.ok else ""),
                action=Action.FIX_IMAGE if outcome.ok else Action.INVESTIGATE,
            )
        )
    return findings


def presence(rack: Rack, answers: Mapping[Node, NodeAnswer]) -> list[Finding]:
    """What of the rack could not even be asked: nodes that do not exist, and nodes nobody asked."""
    findings = [
        Finding(check=REACHABLE, status=Status.UNKNOWN, subject="SSH", node=node.name, message="was not asked")
        for node in rack.nodes
        if node not in answers
    ]
    if len(rack.nodes) < rack.expected_nodes or not rack.nodes:
        findings.append(
            Finding(
                check=PRESENT,
                status=Status.UNKNOWN,
                subject=rack.name,
                value=len(rack.nodes),
                unit="nodes",
                expected=str(rack.expected_nodes),
                source="the inventory",
                message=f"{len(rack.nodes)} of {rack.expected_nodes} nodes exist",
                cause="not deployed, deallocated or deleted",
                action=Action.INVESTIGATE,
            )
        )
    return findings
