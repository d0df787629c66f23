"""The kernel log of this boot tells of no trouble of the InfiniBand adapters: firmware, cable, heat, hanging commands.
"Nothing found" counts only where the log could be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.catalogue.infiniband_counters import is_ours
from ndctl.checks.from_text import evidence, of_node, unusable
from ndctl.checks.read_once import fabric_of, kernel_log_of
from ndctl.checks.texts.kernel_events import event_findings
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "infiniband.adapters"
_SOURCE = "the kernel's log of this boot"
# A register that a tool may not read, and a slot's power that is often read wrong, are no trouble of an adapter.
KINDS = frozenset(("mlx5-health", "mlx5-cable", "mlx5-temperature", "mlx5-command"))


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable(_ID, answer, commands.KERNEL_LOG)
    if missing:
        return [missing]
    result = answer.results[commands.KERNEL_LOG.id]
    log = kernel_log_of(result.stdout, result.stderr)
    names, ignored = _devices(answer, profile)
    events = [event for event in log.events if event.kind in KINDS and event.subject.lower() not in ignored]
    findings = []
    for finding in event_findings(events, log.pstore):
        pci = finding.subject.rpartition(" ")[2].lower()
        subject = f"{names[pci]} ({pci})" if pci in names else finding.subject
        made = of_node(_ID, finding, answer, commands.KERNEL_LOG)
        findings.append(replace(made, subject=subject, source=_SOURCE, expected="none", caused_by=""))
    if not log.shaped or result.truncated:
        findings.append(_unread(answer, result.truncated))
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject="adapters",
            node=answer.node.name,
            value=log.lines,
            unit="lines",
            message=f"no trouble of an adapter in {log.lines} lines of this boot's kernel log",
            evidence=evidence(answer, commands.KERNEL_LOG),
        )
    ]


def _devices(answer: NodeAnswer, profile: Profile) -> tuple[Mapping[str, str], frozenset[str]]:
    """PCI address -> InfiniBand device; and the addresses of devices that are none of the rails."""
    result = answer.results.get(commands.FABRIC_MAP.id)
    ports = fabric_of(result.stdout).ports if result is not None else ()
    ours = {port.pci: port.device for port in ports if port.pci and is_ours(port.device, profile)}
    return ours, frozenset(port.pci for port in ports if port.pci and port.pci not in ours)


def _unread(answer: NodeAnswer, cut: bool) -> Finding:
    return Finding(
        check=_ID,
        status=Status.UNKNOWN,
        subject="kernel log",
        node=answer.node.name,
        message="the kernel log was cut off" if cut else "no line of a kernel log could be read",
        cause="the log is not readable for the login user, or is very long",
        action=Action.INVESTIGATE,
        evidence=evidence(answer, commands.KERNEL_LOG),
    )


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="the kernel log tells of no trouble of the InfiniBand adapters",
    commands=(commands.KERNEL_LOG, commands.FABRIC_MAP),
    judge_node=_judge_node,
    required=False,
)
