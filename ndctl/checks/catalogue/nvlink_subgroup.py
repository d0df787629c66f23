"""Where the control plane says that the rack's VMs stand (the interconnect subgroup) and where they say so themselves:
their NVLink clique, their IMEX node list, their partition key. Each that disagrees is a finding of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import unusable
from ndctl.checks.majority import camps, majority
from ndctl.checks.subgroups import Placement, placement_of
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "nvlink.subgroup"
_SOURCE = "Azure's interconnect subgroup of each VM (instance view)"
_CATEGORY = "Resource.Hpc.Unhealthy.NvLink"
_RECORD = "the control plane's record is stale or wrong, since the node itself is where the rack is"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    return [*_unheard(view), *_judge(view, placement_of(view, profile))]


def _unheard(view: RackView) -> list[Finding]:
    """Nodes that did not tell all that is compared."""
    asked = (commands.NVIDIA_SMI_XML, commands.IMEX_NODE_LIST, commands.IB_SYSFS)
    missing = (
        next((lost for command in asked if (lost := unusable(_ID, answer, command))), None)
        for answer in view.answers.values()
        if answer.results
    )
    return [one for one in missing if one is not None]


def _judge(view: RackView, placed: Placement) -> list[Finding]:
    if not placed.subgroups:
        return [_nothing(view, "the control plane tells no interconnect subgroup of these nodes")]
    counts = Counter(placed.subgroups.values())
    usual = majority(placed.subgroups.values(), view.expected_nodes)
    if usual is None and len(counts) == 1:
        usual = next(iter(counts))
    if usual is None:
        return [_split(view, placed)]
    findings = [
        *_cliques(placed, usual),
        *_lists(placed, usual),
        *_partitions(placed, usual),
    ]
    untold = sorted(node.name for node in view.answers if node not in placed.subgroups)
    if untold:
        text = f"the control plane tells no subgroup of {', '.join(untold[:4])}"
        findings.append(_nothing(view, text))
    if not (placed.cliques or placed.peers or placed.partitions):
        findings.append(_nothing(view, "no node told a clique, an IMEX list or a partition key to compare"))
    if any(one.status is not Status.SKIP for one in findings) or len(counts) > 1:
        return findings
    compared = [
        word
        for word, there in (("clique", placed.cliques), ("IMEX list", placed.peers), ("partition", placed.partitions))
        if there
    ]
    if not compared:
        return findings
    return [
        *findings,
        Finding(
            check=_ID,
            status=Status.PASS,
            subject=view.name,
            value=usual,
            source=_SOURCE,
            message=f"{counts[usual]} nodes in one subgroup, as their {', '.join(compared)} say",
        ),
    ]


def _cliques(placed: Placement, usual: str) -> list[Finding]:
    """The two may disagree on a node in two ways, and where they agree that it is elsewhere, it is elsewhere."""
    common = majority(placed.cliques[node] for node in placed.cliques if placed.subgroups.get(node) == usual)
    findings = []
    for node, subgroup in placed.subgroups.items():
        clique = placed.cliques.get(node)
        here, same = subgroup == usual, clique == common
        if clique is None or common is None:
            if not here:
                text = (
                    f"stands in subgroup {subgroup}, the rack's others in {usual}; its GPUs name no clique to compare"
                )
                findings.append(_of_node("elsewhere", Status.FAIL, node, subgroup, usual, text))
        elif not here and not same:
            text = f"stands in another rack: subgroup {subgroup} and clique {clique}, the rack's {usual} and {common}"
            findings.append(_of_node("elsewhere", Status.FAIL, node, subgroup, usual, text))
        elif not here:
            text = (
                f"the control plane has it in subgroup {subgroup}, and its GPUs are in the clique of the rack, {common}"
            )
            findings.append(_of_node("clique", Status.WARN, node, subgroup, usual, text))
        elif not same:
            text = f"the control plane has it in the rack's subgroup, and its GPUs are in clique {clique}, not {common}"
            findings.append(_of_node("clique", Status.FAIL, node, clique, common, text))
    return findings


def _lists(placed: Placement, usual: str) -> list[Finding]:
    """A list says who is in the rack; one finding for each node that most lists and the control plane disagree on."""
    findings = []
    lists = [named for node, named in placed.peers.items() if placed.subgroups.get(node) == usual]
    for node, subgroup in placed.subgroups.items():
        naming = sum(1 for named in lists if node in named)
        if subgroup != usual and 2 * naming > len(lists):
            text = f"the rack's IMEX lists name it, and the control plane has it in subgroup {subgroup}"
            findings.append(_of_node("imex", Status.WARN, node, subgroup, usual, text))
        elif subgroup == usual and lists and 2 * naming < len(lists):
            text = f"the control plane has it in the rack's subgroup, and {len(lists) - naming} of {len(lists)} IMEX "
            text += "lists of the rack do not name it"
            findings.append(_of_node("imex", Status.FAIL, node, f"{naming} of {len(lists)} lists", "all lists", text))
    return findings


def _partitions(placed: Placement, usual: str) -> list[Finding]:
    """Whether two subgroups share a key is not documented, so only nodes of one subgroup must have the same."""
    common = majority(key for node, key in placed.partitions.items() if placed.subgroups.get(node) == usual)
    return [
        _of_node(
            "partition",
            Status.FAIL,
            node,
            key,
            common,
            f"the control plane has it in the rack's subgroup, and its partition key is {key}, not {common}",
        )
        for node, key in placed.partitions.items()
        if common is not None and key != common and placed.subgroups.get(node) == usual
    ]


def _of_node(kind: str, status: Status, node: Node, value: str, expected: str, message: str) -> Finding:
    moved = kind == "elsewhere"
    return Finding(
        check=f"{_ID}.{kind}",
        status=status,
        subject=node.name,
        node=node.name,
        value=value,
        expected=expected,
        source=_SOURCE,
        message=message,
        cause="the scale set's VM landed in another rack"
        if moved
        else _RECORD
        if status is Status.WARN
        else _CAUSES[kind],
        action=Action.REDEPLOY if moved else Action.INVESTIGATE,
        evidence=f"{node.name}/{_EVIDENCE.get(kind, commands.NVIDIA_SMI_XML).id}",
        health_category=_CATEGORY if kind == "clique" and status is Status.FAIL else "",
    )


_CAUSES: Mapping[str, str] = {
    "clique": "the NVLink partition of the rack was split, or the tray lost its routes",
    "imex": "nodes_config.cfg was written before this node was there",
    "partition": "the VM's ports were put into another partition",
}
_EVIDENCE = {"imex": commands.IMEX_NODE_LIST, "partition": commands.IB_SYSFS}


def _split(view: RackView, placed: Placement) -> Finding:
    shown = {node.name: subgroup for node, subgroup in placed.subgroups.items()}
    return Finding(
        check=f"{_ID}.split",
        status=Status.FAIL,
        subject=view.name,
        value=len(set(shown.values())),
        unit="subgroups",
        expected="one",
        source=_SOURCE,
        message=f"the rack's nodes stand in several subgroups, and none has the majority: {camps(shown)}",
        cause="the scale set was allocated over two physical racks",
        action=Action.REDEPLOY,
    )


def _nothing(view: RackView, why: str) -> Finding:
    return Finding(check=_ID, status=Status.SKIP, subject=view.name, message=why, source=_SOURCE)


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="the control plane's subgroup is where the nodes' cliques, IMEX lists and partition keys say they are",
    commands=(commands.NVIDIA_SMI_XML, commands.IMEX_NODE_LIST, commands.IB_SYSFS, commands.IDENTITY),
    judge_rack=_judge_rack,
    required=False,
    applies=lambda profile: profile.nvlink.domain.value == "rack",
)
