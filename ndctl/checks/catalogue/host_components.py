"""Every node of a rack has the same software: what Azure's HPC image says of itself is equal on all of them."""

from __future__ import annotations

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence
from ndctl.checks.host_equal import Comparison, compare
from ndctl.checks.host_facts import THE_RACK, gathered
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import component_versions
from ndctl.profiles.schema import Profile

_ID = "host.components"
_FILE = f"/{asked.COMPONENTS}"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    told, findings = gathered(_ID, view, asked.COMMAND_LINE, asked.CPUS_ONLINE)
    by_node: dict[str, dict[str, str]] = {}
    without: list[NodeAnswer] = []
    for name, (answer, files) in told.items():
        if asked.COMPONENTS not in files.files:
            without.append(answer)
            continue
        facts = component_versions.parse(files.text(asked.COMPONENTS))
        if facts.versions and facts.complete:
            by_node[name] = dict(facts.versions)
        else:
            findings.append(_damaged(answer))
    if not by_node:
        nothing = f"no node has {_FILE}: not an Azure HPC image"
        return [*findings, _of_rack(view, Status.SKIP, nothing)] if without else findings
    if 2 * len(without) < len(told):
        findings += [_absent(answer, len(by_node)) for answer in without]
    elif without:
        text = f"{len(without)} of {len(told)} nodes have no {_FILE}"
        findings.append(_of_rack(view, Status.WARN, text))
    if len(by_node) < 2:
        return [*findings, _of_rack(view, Status.SKIP, "there is no second node to compare with")]
    what = Comparison(
        _ID,
        "components",
        "made from another image, or updated by itself",
        Action.REIMAGE,
        asked.HOST_FILES.id,
    )
    voters = sum(1 for answer in view.answers.values() if answer.results)
    findings += compare(what, view.name, by_node, voters)
    if not findings:
        number = max(map(len, by_node.values()))
        image = next(iter(by_node.values())).get("ImageVersion", "")
        text = f"{number} components equal on {len(by_node)} nodes" + (f", image {image}" if image else "")
        findings.append(_of_rack(view, Status.PASS, text))
    return findings


def _damaged(answer: NodeAnswer) -> Finding:
    return Finding(
        check=f"{_ID}.damaged",
        status=Status.WARN,
        subject=_FILE,
        node=answer.node.name,
        expected="a JSON object",
        source="Azure/azhpc-images writes one",
        message=f"{_FILE} is no whole JSON object: what is installed here cannot be told",
        cause="written in part, or by another tool",
        action=Action.INVESTIGATE,
        evidence=evidence(answer, asked.HOST_FILES),
    )


def _absent(answer: NodeAnswer, others: int) -> Finding:
    return Finding(
        check=f"{_ID}.absent",
        status=Status.WARN,
        subject=_FILE,
        node=answer.node.name,
        expected=f"there, as on {others} nodes",
        source=THE_RACK,
        message=f"{_FILE} is missing here, and {others} nodes have it",
        cause="made from another image",
        action=Action.REIMAGE,
        evidence=evidence(answer, asked.HOST_FILES),
    )


def _of_rack(view: RackView, status: Status, message: str) -> Finding:
    warned = status is Status.WARN
    return Finding(
        check=_ID,
        status=status,
        subject=view.name,
        message=message,
        cause="the rack is of two images" if warned else "",
        action=Action.REIMAGE if warned else Action.NONE,
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="the versions of the HPC image's components are equal across the rack",
    commands=(asked.HOST_FILES,),
    judge_rack=_judge_rack,
    required=False,
)
