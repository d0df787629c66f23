"""GPUs are of the promised kind and of one version: model, driver, CUDA and VBIOS are equal across the rack."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.gpus import gpus_of, subject
from ndctl.checks.majority import camps, majority
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "gpu.identity"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    findings: list[Finding] = []
    versions: dict[str, dict[tuple[str, str], str]] = {"driver": {}, "CUDA": {}, "VBIOS": {}}
    number = 0
    for node, answer in view.answers.items():
        facts = gpus_of(answer)
        if facts is None or not facts.gpus:
            if answer.results:
                findings.append(_nameless(node.name, "GPUs"))
            continue
        versions["driver"][(node.name, "NVIDIA driver")] = facts.driver_version or ""
        versions["CUDA"][(node.name, "CUDA")] = facts.cuda_version or ""
        for gpu in facts.gpus:
            number += 1
            versions["VBIOS"][(node.name, subject(gpu))] = gpu.vbios or ""
            wanted = profile.gpu.name
            if not gpu.name:
                findings.append(_nameless(node.name, subject(gpu)))
            if gpu.name and wanted.value.lower() not in gpu.name.lower():
                findings.append(
                    Finding(
                        check=_ID,
                        status=Status.FAIL,
                        subject=subject(gpu),
                        node=node.name,
                        value=gpu.name,
                        expected=wanted.value,
                        source=wanted.origin,
                        message=f"is a {gpu.name}, not a {wanted.value}",
                        cause="the inventory names another VM size or profile",
                        action=Action.FIX_INVENTORY,
                        evidence=f"{node.name}/{commands.NVIDIA_SMI_XML.id}",
                    )
                )
    for what, values in versions.items():
        told = {key: value for key, value in values.items() if value}
        usual = majority(told.values(), len(values))
        if usual is None and len(set(told.values())) > 1:
            findings.append(_split(view, what, {f"{name} {part}": value for (name, part), value in told.items()}))
        for (node_name, part), value in told.items():
            if usual is not None and value != usual:
                findings.append(
                    Finding(
                        check=f"{_ID}.mixed",
                        status=Status.WARN,
                        subject=part,
                        node=node_name,
                        value=value,
                        expected=usual,
                        source="the rack's other nodes",
                        message=f"{what} {value} beside the rack's {usual}",
                        cause="made from another image, or updated by itself",
                        action=Action.REIMAGE if what != "VBIOS" else Action.INVESTIGATE,
                        evidence=f"{node_name}/{commands.NVIDIA_SMI_XML.id}",
                    )
                )
    if not number:
        nothing = Finding(check=_ID, status=Status.UNKNOWN, subject=view.name, message="no GPU was listed anywhere")
        return findings or [nothing]
    driver = next((value for value in versions["driver"].values() if value), "")
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject=view.name,
            value=number,
            unit="GPUs",
            message=f"{number} {profile.gpu.name.value}, driver {driver or 'unknown'}",
        )
    ]


def _nameless(node: str, part: str) -> Finding:
    return Finding(
        check=_ID,
        status=Status.UNKNOWN,
        subject=part,
        node=node,
        message="nvidia-smi does not tell what kind of GPU this is",
        action=Action.INVESTIGATE,
        evidence=f"{node}/{commands.NVIDIA_SMI_XML.id}",
    )


def _split(view: RackView, what: str, told: dict[str, str]) -> Finding:
    return Finding(
        check=f"{_ID}.mixed",
        status=Status.WARN,
        subject=f"{view.name} {what}",
        value=len(set(told.values())),
        unit="versions",
        expected="one",
        message=f"{what} is split, and no version has the majority: {camps(told)}",
        cause="an update that reached only a part of the rack",
        action=Action.REIMAGE if what != "VBIOS" else Action.INVESTIGATE,
    )


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="GPU model as promised; driver, CUDA and VBIOS equal across the rack",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_rack=_judge_rack,
)
