"""From the answers of one rack to its result: node judges, rack judges, root causes, verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ndctl.checks.base import Check, RackView
from ndctl.checks.cut_answers import cut_answers
from ndctl.checks.history import beside
from ndctl.checks.registry import catalogue
from ndctl.checks.root_cause import attribute
from ndctl.checks.slow_answers import explain_slow_answers
from ndctl.checks.summary import rack_facts
from ndctl.checks.verdict import belongs, node_result, presence, rack_verdict, reachability, usable
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding, RackResult
from ndctl.model.places import Node, Rack
from ndctl.model.status import Action, Status
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
    remarks: Sequence[str] = (),
    client: str = "",
    exercised: frozenset[tuple[str, str]] = frozenset(),
    past: Sequence[Finding] = (),
) -> RackResult:
    """The rack's result.

    active: findings of jobs that ran over the rack; `active_required` are the ids such a level must have
    disabled: check id -> reason; such a check is shown as skipped and is not asked of the rack
    remarks: what the answer must say beside its findings; they end in its facts
    client: what is wrong with the machine ndctl runs on, by which answers come late
    exercised: see `RackView`
    past: warnings of the rack's own history; told of parts that nothing else accuses
    """
    disabled = disabled or {}
    in_force = [check for check in checks if check.id not in disabled]
    asked = any(check.commands for check in in_force)
    findings: list[Finding] = [*presence(rack, answers), *reachability(answers, asked)]
    view = RackView(rack.name, rack.expected_nodes, answers, exercised)
    findings += [_switched_off(rack, check, disabled[check]) for check in disabled if _meant(check, checks)]
    if not in_force and not active_required:
        findings.append(_nothing_asked(rack))
    for check in in_force:
        findings += _said_by(check, view, profile)
    findings += cut_answers(answers, in_force)
    findings += [f for f in active if not any(belongs(f.check, check) for check in disabled)]
    findings += beside(past, findings)
    findings = attribute(explain_slow_answers(findings, answers, client))
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
        facts=rack_facts(view, findings, profile) | _told({"remarks": list(remarks), "client": client}),
        seconds=seconds,
    )


def _told(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Those that say something."""
    return {key: value for key, value in facts.items() if value}


def _meant(check: str, checks: Sequence[Check]) -> bool:
    """Whether a check that is switched off would have been asked: of the passive ones, those that are chosen."""
    passive = {one.id for one in catalogue()}
    return check not in passive or any(one.id == check for one in checks)


def _nothing_asked(rack: Rack) -> Finding:
    return Finding(
        check="host.asked",
        status=Status.UNKNOWN,
        subject=rack.name,
        message="no check is left to ask: what was chosen is of another level, or switched off",
        cause="--only and --level leave no check, or disabled_checks names all of them",
        action=Action.FIX_INVENTORY,
    )


def _switched_off(rack: Rack, check: str, reason: str) -> Finding:
    return Finding(check=check, status=Status.SKIP, subject=rack.name, message=f"switched off: {reason}")


def _said_by(check: Check, view: RackView, profile: Profile) -> list[Finding]:
    """One check's findings. A node of which it says nothing, or an error of its own, is unknown and costs no other
    check its answer."""
    findings: list[Finding] = []
    for node, answer in view.answers.items() if check.judge_node is not None else ():
        # Of a node without any result `host.reachable` says all there is to say.
        if answer.results and check.judge_node is not None:
            said = _guarded(check, partial(check.judge_node, answer, profile), node.name)
            findings += said or [_unjudged(check, node.name, "the check says nothing about this node")]
    # Of a rack in which nobody told anything, that is all there is to say; what asks no node is judged all the same.
    told = not check.commands or any(answer.results for answer in view.answers.values())
    if check.judge_rack is not None and told:
        findings += _guarded(check, partial(check.judge_rack, view, profile), "", view.name)
    return findings


def _guarded(check: Check, judge: Callable[[], Sequence[Finding]], node: str, rack: str = "") -> list[Finding]:
    try:
        return list(judge())
    except Exception as error:
        # Somebody waits for the answer about all the other racks; that this one part was not judged is told, loudly.
        return [_unjudged(check, node, f"ndctl failed to judge it ({type(error).__name__}: {error})", rack)]


def _unjudged(check: Check, node: str, why: str, rack: str = "") -> Finding:
    return Finding(
        check=check.id,
        status=Status.UNKNOWN,
        subject=rack or check.id,
        node=node,
        message=why,
        cause="a fault of ndctl, or a text it has never met: please report it with the run's raw texts",
        action=Action.INVESTIGATE,
    )
