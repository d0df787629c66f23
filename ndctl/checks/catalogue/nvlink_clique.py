"""One NVLink domain: every GPU of the rack names the same fabric (ClusterUUID) and the same clique."""

from __future__ import annotations

from collections import Counter

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.gpus import gpus_of, subject
from ndctl.checks.majority import camps, majority
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.gpu_facts import Gpu
from ndctl.profiles.schema import Profile

_ID = "nvlink.clique"
_SOURCE = "NVIDIA fabric block: ClusterUUID and CliqueId are equal within an NVLink domain"


def clique_of(gpu: Gpu) -> tuple[str, str] | None:
    """(ClusterUUID, CliqueId); None while the GPU is not registered with a fabric."""
    if gpu.fabric is None:
        return None
    uuid, clique = (gpu.fabric.cluster_uuid or ""), gpu.fabric.clique_id
    if not str("" if clique is None else clique).strip().isdigit():  # "N/A", "[Not Supported]"
        return None
    if not uuid.replace("-", "").strip("0") or uuid.upper() == "N/A":
        return None
    return uuid.lower(), str(clique)


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    seen: dict[tuple[Node, int], tuple[Gpu, tuple[str, str]]] = {}
    findings: list[Finding] = []
    for node, answer in view.answers.items():
        facts = gpus_of(answer)
        gpus = facts.gpus if facts else ()
        named = {(node, gpu.index): (gpu, clique) for gpu in gpus if (clique := clique_of(gpu))}
        seen.update(named)
        if answer.results and (len(named) < len(gpus) or not gpus):
            findings.append(_unnamed(node.name, len(gpus) - len(named), len(gpus)))
    if not seen:
        return findings or [_nothing(view)]
    counts = Counter(clique for _, clique in seen.values())
    usual = majority(counts.elements(), view.expected_nodes * profile.gpu.count.value)
    if len(counts) > 1 and usual is None:
        return [*findings, _split(view, {node.name: "/".join(clique) for (node, _), (_, clique) in seen.items()})]
    if usual is None:
        usual = next(iter(counts))
    for (node, _), (gpu, clique) in seen.items():
        if clique != usual:
            same_fabric = clique[0] == usual[0]
            findings.append(
                Finding(
                    check=_ID,
                    status=Status.FAIL,
                    subject=subject(gpu),
                    node=node.name,
                    value=f"{clique[0]}/{clique[1]}",
                    expected=f"{usual[0]}/{usual[1]} as {counts[usual]} of {len(seen)} GPUs",
                    source=_SOURCE,
                    message="is in another clique of the rack's fabric"
                    if same_fabric
                    else "is in another NVLink fabric: the VM is not in this rack",
                    cause="the NVLink partition was split, or routes were lost"
                    if same_fabric
                    else "the scale set's VM landed in another rack",
                    action=Action.INVESTIGATE if same_fabric else Action.REDEPLOY,
                    evidence=f"{node.name}/{commands.NVIDIA_SMI_XML.id}",
                    health_category="Resource.Hpc.Unhealthy.NvLink",
                )
            )
    if not findings:
        findings.append(
            Finding(
                check=_ID,
                status=Status.PASS,
                subject=view.name,
                value=len(seen),
                unit="GPUs",
                message=f"{len(seen)} GPUs in one clique, {usual[0]}/{usual[1]}",
            )
        )
    return findings


def _unnamed(node: str, silent: int, of: int) -> Finding:
    return Finding(
        check=_ID,
        status=Status.UNKNOWN,
        subject="GPUs",
        node=node,
        value=of - silent,
        unit="GPUs",
        message=f"{silent} of {of} GPUs name no clique" if of else "no GPU is listed, so no clique is known",
        action=Action.INVESTIGATE,
        evidence=f"{node}/{commands.NVIDIA_SMI_XML.id}",
    )


def _nothing(view: RackView) -> Finding:
    return Finding(check=_ID, status=Status.UNKNOWN, subject=view.name, message="no GPU names a clique")


def _split(view: RackView, cliques: dict[str, str]) -> Finding:
    return Finding(
        check=f"{_ID}.split",
        status=Status.FAIL,
        subject=view.name,
        value=len(set(cliques.values())),
        unit="cliques",
        expected="one",
        source=_SOURCE,
        message=f"the rack is split, and no clique has the majority of its GPUs: {camps(cliques)}",
        cause="an NVLink partition that divides the rack, or VMs of two racks in one scale set",
        action=Action.INVESTIGATE,
        health_category="Resource.Hpc.Unhealthy.NvLink",
    )


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="one NVLink clique across the rack",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_rack=_judge_rack,
    applies=lambda profile: profile.nvlink.domain.value == "rack",
)
