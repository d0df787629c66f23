"""The kernel log of this boot tells of no fault of the machine: memory, PCIe, machine checks, hung tasks, tasks killed
for lack of memory, disks, lockups. "Nothing found" counts only where the log could be read."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, of_node, unusable
from ndctl.checks.read_once import kernel_log_of
from ndctl.checks.texts.kernel_events import event_findings
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.kernel_log import KernelEvent, KernelLog
from ndctl.profiles.schema import Profile

_ID = "host.kernel"
_SOURCE = "the kernel's log of this boot"
# Signs of the machine; those of the GPUs' driver and of the InfiniBand adapters belong to their own checks.
KINDS = frozenset(
    (
        "memory-uncorrected",
        "memory-corrected",
        "memory-failure",
        "pcie-fatal",
        "pcie-nonfatal",
        "pcie-corrected",
        "pcie-surprise-down",
        "hardware-error-fatal",
        "hardware-error",
        "machine-check",
        "machine-check-logged",
        "panic",
        "deliberate-crash",
        "oops",
        "lockup",
        "rcu-stall",
        "hung-task",
        "out-of-memory",
        "nvme",
        "disk-error",
        "read-only",
        "filesystem",
        "cpu-throttled",
        "iommu",
    )
)
_PARTS_SHOWN = 4
# A process killed for lack of memory of the machine; at the limit of its own container or job the machine had enough.
_MACHINE_OUT_OF_MEMORY = re.compile(
    r"(?<!cgroup )out of memory: kill|oom-kill:constraint=CONSTRAINT_(?!MEMCG)|oom-kill:.{0,200}global_oom",
    re.IGNORECASE,
)
_AT_A_LIMIT = re.compile(r"memory cgroup out of memory: kill", re.IGNORECASE)


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable(_ID, answer, commands.KERNEL_LOG)
    if missing:
        return [missing]
    result = answer.results[commands.KERNEL_LOG.id]
    log = kernel_log_of(result.stdout, result.stderr)
    own_limit = bool(_AT_A_LIMIT.search(result.stdout)) and not _MACHINE_OUT_OF_MEMORY.search(result.stdout)
    events = [event for event in _folded(log) if not (own_limit and event.kind == "out-of-memory")]
    said = event_findings(events, log.pstore)
    findings = [_ours(of_node(_ID, finding, answer, commands.KERNEL_LOG)) for finding in said]
    why = _unread(answer, log)
    if why:
        findings.append(why)
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject="kernel log",
            node=answer.node.name,
            value=log.lines,
            unit="lines",
            message=f"no fault of the machine in {log.lines} lines of this boot's kernel log"
            + ("" if log.booted is not None else ", which no longer reaches back to the boot")
            + ("; processes were killed at their own job's memory limit" if own_limit else ""),
            evidence=evidence(answer, commands.KERNEL_LOG),
        )
    ]


def _folded(log: KernelLog) -> list[KernelEvent]:
    """One event of each kind with the parts it names: a process killed ten times is one finding, not ten."""
    kinds: dict[str, list[KernelEvent]] = {}
    for event in log.events:
        if event.kind in KINDS:
            kinds.setdefault(event.kind, []).append(event)
    folded = []
    for kind, found in kinds.items():
        parts = Counter({event.subject: event.count for event in found if event.subject})
        names = [name for name, _ in parts.most_common()]
        more = f" and {len(names) - _PARTS_SHOWN} more" if len(names) > _PARTS_SHOWN else ""
        subject = ", ".join(names[:_PARTS_SHOWN]) + more
        first = found[0]
        folded.append(KernelEvent(kind, subject, first.text, first.time, sum(event.count for event in found)))
    return folded


def _ours(finding: Finding) -> Finding:
    # The text judge's `caused_by` names findings of its own, which are not among these.
    return replace(finding, source=_SOURCE, expected="none", caused_by="")


def _unread(answer: NodeAnswer, log: KernelLog) -> Finding | None:
    result = answer.results[commands.KERNEL_LOG.id]
    if result.truncated:
        why = f"only the first {commands.KERNEL_LOG.cap_bytes // 10**6} MB of the kernel log were taken"
        cause, action = "something floods the kernel log; what came later is not here", Action.INVESTIGATE
    elif log.lines and log.shaped:
        return None
    else:
        said = next(iter((result.stderr or result.stdout).strip().splitlines()), "it is empty")
        why = f"the kernel log could not be read, so that it shows no fault proves nothing: {said[:160]}"
        cause, action = "the login user may not read it", Action.FIX_IMAGE
    return Finding(
        check=_ID,
        status=Status.UNKNOWN,
        subject="kernel log",
        node=answer.node.name,
        message=why,
        cause=cause,
        action=action,
        evidence=evidence(answer, commands.KERNEL_LOG),
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="the kernel log of this boot tells of no fault of memory, PCIe, CPU, disks or tasks",
    commands=(commands.KERNEL_LOG,),
    judge_node=_judge_node,
)
