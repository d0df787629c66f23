"""XIDs of this boot over the whole rack: the root cause by name, and what it explains. No XIDs counts only where the
kernel log was readable."""

from __future__ import annotations

from collections import Counter

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import unusable
from ndctl.checks.gpus import gpus_of, short_pci, subject
from ndctl.checks.texts.xids import CATEGORY, SOURCE, XIDS, link_down_cause
from ndctl.checks.xid_blame import Seen, blame, gather, is_root, status_of, switch_plane
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.kernel_log import KernelLog, XidEvent, parse
from ndctl.profiles.schema import Profile

_ID = "gpu.xid"
_RECOVERY = {
    "gpu reset required": Action.RESET_GPU,
    "reset gpu": Action.RESET_GPU,
    "drain and reset": Action.RESET_GPU,
    "drain p2p": Action.RESET_GPU,
    "node reboot required": Action.REBOOT,
    "system reboot": Action.REBOOT,
    "recover imex domain": Action.RESTART_IMEX,
}


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    findings: list[Finding] = []
    by_node: dict[str, list[tuple[str, XidEvent]]] = {}
    subjects: dict[tuple[str, str], str] = {}
    for node, answer in view.answers.items():
        if not answer.outcome.ok and not answer.results:
            continue
        missing = unusable(_ID, answer, commands.KERNEL_LOG) or _unreadable(answer)
        if missing:
            findings.append(missing)
            continue
        log = _log(answer)
        facts = gpus_of(answer)
        for gpu in facts.gpus if facts else ():
            subjects[(node.name, _bare(short_pci(gpu.pci)))] = subject(gpu)
        by_node[node.name] = [(_bare(short_pci(event.pci)), event) for event in log.xids]
        for text in log.fell_off_bus:
            if not any(event.xid == 79 for event in log.xids):
                findings.append(_fell_off(node.name, text))
    seen = gather(by_node)
    blame(seen)
    explained: dict[int, Counter[int]] = {}
    for one in seen:
        if one.cause is not None:
            explained.setdefault(id(one.cause), Counter())[one.xid] += 1
    for one in seen:
        part = subjects.get((one.node, one.pci), f"GPU at {one.pci}")
        findings.append(_finding(one, part, subjects, explained.get(id(one), Counter())))
    for link, found in sorted(switch_plane(seen).items()):
        findings.append(_plane(view, link, found))
    if by_node and not any(f.status in (Status.FAIL, Status.WARN) for f in findings):
        number = sum(len(events) for events in by_node.values())
        findings.append(
            Finding(
                check=_ID,
                status=Status.PASS,
                subject=view.name,
                value=number,
                unit="XIDs",
                message=f"{number} XIDs of the hardware's or NVLink's kind in {len(by_node)} kernel logs of this boot"
                if number
                else f"no XID in {len(by_node)} kernel logs of this boot",
            )
        )
    return findings


def _log(answer: NodeAnswer) -> KernelLog:
    result = answer.results[commands.KERNEL_LOG.id]
    return parse(result.stdout, result.stderr)


def _bare(pci: str) -> str:
    """Without the function: kernel lines leave it out as often as not."""
    return pci.partition(".")[0]


def _unreadable(answer: NodeAnswer) -> Finding | None:
    log = _log(answer)
    result = answer.results[commands.KERNEL_LOG.id]
    if log.lines and log.shaped:
        return None
    said = next(iter((result.stderr or result.stdout).strip().splitlines()), "it is empty")
    return Finding(
        check=_ID,
        status=Status.UNKNOWN,
        subject="kernel log",
        node=answer.node.name,
        message=f"the kernel log could not be read, so the absence of XIDs proves nothing: {said[:160]}",
        cause="the login user may not read it: sudo without a password, or the group adm or systemd-journal",
        action=Action.FIX_IMAGE,
        evidence=f"{answer.node.name}/{commands.KERNEL_LOG.id}",
    )


def _finding(one: Seen, part: str, subjects: dict[tuple[str, str], str], explained: Counter[int]) -> Finding:
    first = one.first
    known = XIDS.get(one.xid)
    link = first.nvlink.link if first.nvlink else None
    count = f" ×{len(one.events)}" if len(one.events) > 1 else ""
    what = f"XID {one.xid}{count} {known.meaning if known else 'that the catalogue does not list'}"
    if first.nvlink:
        what = f"XID {one.xid}{count} {first.nvlink.unit} {first.nvlink.severity}" + (
            f", link {link:02d}" if link is not None and link >= 0 else ""
        )
        if first.nvlink.reason is not None:
            what += f", subcode {first.nvlink.reason} ({link_down_cause(first.nvlink.reason)})"
    if first.recovery:
        what += f": {first.recovery}"
    status = status_of(one)
    cause_ref = ""
    if one.cause is not None:
        root = subjects.get((one.cause.node, one.cause.pci), f"GPU at {one.cause.pci}")
        cause_ref = f"{_ID}@{one.cause.node} {root}"
    return Finding(
        check=f"{_ID}.{one.xid}",
        status=status,
        subject=part + (f" link {link}" if link is not None and link >= 0 else ""),
        node=one.node,
        value=len(one.events),
        unit="events",
        expected="none",
        source=SOURCE,
        message=f"{what} at {first.time}" if first.time else what,
        cause="" if status is Status.PASS else (known.meaning if known else ""),
        action=_action(one) if status is not Status.PASS else Action.NONE,
        evidence=f"{one.node}/{commands.KERNEL_LOG.id}",
        health_category=CATEGORY.get(one.xid, "") if status is Status.FAIL else "",
        caused_by=cause_ref,
        explains=tuple(
            f"XID {xid} on {number} GPU{'s' if number > 1 else ''}" for xid, number in sorted(explained.items())
        ),
    )


def _action(one: Seen) -> Action:
    if one.xid == 154:
        return _RECOVERY.get((one.first.recovery or "").strip().lower(), Action.INVESTIGATE)
    known = XIDS.get(one.xid)
    if one.xid == 149 and is_root(one):
        return Action.REPLACE_AND_REPORT
    return known.action if known else Action.INVESTIGATE


def _fell_off(node: str, text: str) -> Finding:
    return Finding(
        check=f"{_ID}.fell-off-bus",
        status=Status.FAIL,
        subject=f"GPU at {text}" if ":" in text else "GPU",
        node=node,
        message=f"a GPU has fallen off the bus: {text}",
        source=SOURCE,
        cause="the GPU or its PCIe path died",
        action=Action.REPLACE_AND_REPORT,
        evidence=f"{node}/{commands.KERNEL_LOG.id}",
        health_category=CATEGORY[79],
    )


def _plane(view: RackView, link: int, found: list[Seen]) -> Finding:
    nodes = sorted({seen.node for seen in found})
    return Finding(
        check=f"{_ID}.switch-plane",
        status=Status.FAIL,
        subject=f"{view.name} NVSwitch behind link {link}",
        value=len(nodes),
        unit="nodes",
        source=SOURCE,
        message=f"XID 149 on link {link} of {len(nodes)} nodes ({', '.join(nodes[:4])}), each accusing the peer",
        cause="the switch or switch plane behind that link, not these nodes",
        action=Action.REPLACE_AND_REPORT,
    )


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="no XID of this boot names a hardware fault; sympathetic ones are attributed to their root",
    commands=(commands.KERNEL_LOG, commands.NVIDIA_SMI_XML),
    judge_rack=_judge_rack,
)
