"""From the answers of one rack to its result: node judges, rack judges, root causes, verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ndctl.checks.base import Check, RackView
from ndctl.checks.root_cause import attribute
from ndctl.checks.summary import rack_facts
from ndctl.checks.verdict import node_result, rack_verdict, reachability, usable
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding, RackResult
from ndctl.model.places import Node, Rack
from ndctl.model.status import Status
from ndctl.profiles.schema import Profile


def judge_rack(
    rack: Rack,
    cluster: str,
    answers: Mapping[Node, NodeAnswer],
    checks: Sequence[Check],
    profile: Profile,
    *,
    active: Sequence[Finding] = (),
    active_required: Sequence[str] = (),
    disabled: Mapping[str, str] | None = None,
    seconds: float = 0.0,
) -> RackResult:
    """The rack's result.

    active: findings of jobs that ran over the rack; `active_required` are the ids such a level must have
    disabled: check id -> reason; such a check is shown as skipped and is not asked of the rack
    """
    disabled = disabled or {}
    findings: list[Finding] = list(reachability(answers))
    view = RackView(rack.name, rack.expected_nodes, answers)
    for check in checks:
        if check.id in disabled:
            findings.append(
                Finding(
                    check=check.id, status=Status.SKIP, subject=rack.name, message=f"switched off: {disabled[check.id]}"
                )
            )
            continue
        if check.judge_node is not None:
            for answer in answers.values():
                if answer.outcome.ok or answer.results:
                    findings.extend(check.judge_node(answer, profile))
        if check.judge_rack is not None:
            findings.extend(check.judge_rack(view, profile))
    findings.extend(f for f in active if f.check not in disabled)
    findings = attribute(findings)
    nodes = [node_result(node, answers.get(node), findings) for node in rack.nodes]
    required = [check.id for check in checks if check.required] + list(active_required)
    verdict = rack_verdict(findings, nodes, rack.expected_nodes, required, tuple(disabled))
    return RackResult(
        name=rack.name,
        cluster=cluster,
        verdict=verdict,
        nodes=tuple(nodes),
        findings=tuple(findings),
        usable_nodes=usable(nodes),
        expected_nodes=rack.expected_nodes,
        facts=rack_facts(view, findings, profile),
        seconds=seconds,
    )
