"""Each node is the machine the profile promises: architecture, vCPUs, memory, and one kernel across the rack."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.majority import camps, majority
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import key_values
from ndctl.profiles.schema import Profile

_ID = "host.identity"
_MACHINE = {"arm64": "aarch64", "x86_64": "x86_64"}


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable(_ID, answer, commands.IDENTITY)
    if missing:
        return [missing]
    facts = key_values.parse(answer.results[commands.IDENTITY.id].stdout)
    node, raw = answer.node.name, evidence(answer, commands.IDENTITY)
    findings: list[Finding] = []

    def bad(subject: str, value: str, expected: str, source: str) -> None:
        findings.append(
            Finding(
                check=_ID,
                status=Status.FAIL,
                subject=subject,
                node=node,
                value=value,
                expected=expected,
                source=source,
                message=f"{subject} is {value}",
                cause="another VM size than the profile's, or CPUs or memory are offline",
                action=Action.FIX_INVENTORY,
                evidence=raw,
            )
        )

    machine = facts.get("machine", "")
    if machine and machine != _MACHINE[profile.azure.architecture]:
        bad("architecture", machine, _MACHINE[profile.azure.architecture], f"profile {profile.name}")
    cpus = facts.get("cpus", "")
    if _number(cpus) and int(cpus) != profile.azure.vcpus.value:
        bad("vCPUs", cpus, str(profile.azure.vcpus.value), profile.azure.vcpus.origin)
    memory = facts.get("memory_kb", "")
    host = profile.host
    if _number(memory) and abs(int(memory) / host.memory_kb.value - 1) > host.memory_tolerance.value:
        expected = f"{host.memory_kb.value} kB ± {host.memory_tolerance.value:.0%}"
        bad("memory", f"{memory} kB", expected, host.memory_kb.origin)
    unread = [name for name in ("machine", "boot_id") if name not in facts]
    unread += [name for name in ("cpus", "memory_kb") if not _number(facts.get(name, ""))]
    if unread:
        findings.append(
            Finding(
                check=_ID,
                status=Status.UNKNOWN,
                subject="host",
                node=node,
                message=f"could not be read: {', '.join(unread)}",
                evidence=raw,
            )
        )
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject="host",
            node=node,
            message=f"{machine}, {cpus} vCPUs, {int(memory) // 2**20} GiB",
            evidence=raw,
        )
    ]


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    kernels = {
        node.name: key_values.parse(answer.results[commands.IDENTITY.id].stdout).get("kernel", "")
        for node, answer in view.answers.items()
        if commands.IDENTITY.id in answer.results
    }
    told = {node: kernel for node, kernel in kernels.items() if kernel}
    usual = majority(told.values(), len(kernels))
    if usual is None and len(set(told.values())) > 1:
        return [
            Finding(
                check=f"{_ID}.kernel",
                status=Status.WARN,
                subject=f"{view.name} kernel",
                value=len(set(told.values())),
                unit="kernels",
                expected="one",
                message=f"the kernel is split, and none has the majority: {camps(told)}",
                cause="an update that reached only a part of the rack",
                action=Action.REIMAGE,
            )
        ]
    return [
        Finding(
            check=f"{_ID}.kernel",
            status=Status.WARN,
            subject="kernel",
            node=node,
            value=kernel,
            expected=usual,
            source="the rack's other nodes",
            message=f"kernel {kernel} differs from the rack's {usual}",
            cause="updated by itself, or made from another image",
            action=Action.REIMAGE,
            evidence=f"{node}/{commands.IDENTITY.id}",
        )
        for node, kernel in told.items()
        if usual is not None and kernel != usual
    ]


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="architecture, vCPUs, memory and kernel are as promised and equal",
    commands=(commands.IDENTITY, commands.PHYSICAL_HOST),
    judge_node=_judge_node,
    judge_rack=_judge_rack,
)
