"""GPUs are of the promised kind and of one version: model, driver, CUDA and VBIOS are equal across the rack."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import common
from ndctl.checks.gpus import gpus_of, subject
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
        if facts is None:
            continue
        versions["driver"][(node.name, "NVIDIA driver")] = facts.driver_version or ""
        versions["CUDA"][(node.name, "CUDA")] = facts.cuda_version or ""
        for gpu in facts.gpus:
            number += 1
            versions["VBIOS"][(node.name, subject(gpu))] = gpu.vbios or ""
            wanted = profile.gpu.name
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
        usual = common(list(values.values()))
        for (node_name, part), value in values.items():
            if value and value != usual:
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
        return [Finding(check=_ID, status=Status.UNKNOWN, subject=view.name, message="no GPU was listed anywhere")]
    driver = common(list(versions["driver"].values()))
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


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="GPU model as promised; driver, CUDA and VBIOS equal across the rack",
    commands=(commands.NVIDIA_SMI_XML,),
    judge_rack=_judge_rack,
)
