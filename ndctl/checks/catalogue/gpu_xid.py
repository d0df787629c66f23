"""XIDs of this boot over the whole rack: the root cause by name, and what it explains. No XIDs counts only where the
kernel log was readable."""

from __future__ import annotations

from collections import Counter

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import unusable
from ndctl.checks.gpus import gpus_of, short_pci, subject
from ndctl.checks.read_once import kernel_log_of
from ndctl.checks.root_cause import reference
from ndctl.checks.texts.xids import CATEGORY, SOURCE, XIDS, link_down_cause
from ndctl.checks.xid_blame import (
    Seen,
    blame,
    distance,
    gather,
    is_link_event,
    is_root,
    rootless,
    status_of,
    switch_plane,
)
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.kernel_log import XidEvent
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
    unread = 0
    late = 0
    for node, answer in view.answers.items():
        missing = _unread(answer) if answer.results else None
        if missing:
            findings.append(missing)
        unread += missing is not None or not answer.results
        result = answer.results.get(commands.KERNEL_LOG.id)
        if result is None or not result.stdout:
            continue
        # What a log that was cut short does show is judged all the same.
        log = kernel_log_of(result.stdout, result.stderr)
        facts = gpus_of(answer)
        for gpu in facts.gpus if facts else ():
            subjects[(node.name, _bare(short_pci(gpu.pci)))] = subject(gpu)
        by_node[node.name] = [(_bare(short_pci(event.pci)), event) for event in log.xids]
        late += log.booted is None
        gone = [_bare(short_pci(event.pci)) for event in log.xids if event.xid == 79]
        findings += [
            _fell_off(node.name, text)
            for text in log.fell_off_bus
            if not any(pci.endswith(_bare(short_pci(text))) for pci in gone)
        ]
    seen = gather(by_node)
    blame(seen)
    outer, elsewhere = _from_elsewhere(view, seen, unread + max(0, view.expected_nodes - len(view.answers)))
    explained: dict[int, Counter[int]] = {}
    for one in seen:
        if one.cause is not None:
            explained.setdefault(id(one.cause), Counter())[one.xid] += 1
    for one in seen:
        part = subjects.get((one.node, one.pci), f"GPU at {one.pci}")
        cause = f"{_ID}.{one.cause.xid}@{one.cause.node}" if one.cause is not None else outer.get(id(one), "")
        findings.append(_finding(one, part, cause, explained.get(id(one), Counter())))
    findings += elsewhere
    read = len(by_node) - sum(1 for f in findings if f.check == _ID and f.node in by_node)
    if read and not any(f.status in (Status.FAIL, Status.WARN) for f in findings):
        findings.append(_clean(view, seen, read, late))
    return findings


def _clean(view: RackView, seen: list[Seen], read: int, late: int) -> Finding:
    number = sum(len(one.events) for one in seen)
    what = f"{number} XIDs, none of the hardware's or NVLink's kind," if number else "no XID"
    since = f" ({late} of them no longer reach back to the boot)" if late else ""
    return Finding(
        check=_ID,
        status=Status.PASS,
        subject=view.name,
        value=number,
        unit="XIDs",
        message=f"{what} in {read} kernel logs of this boot{since}",
    )


def _from_elsewhere(view: RackView, seen: list[Seen], unread: int) -> tuple[dict[int, str], list[Finding]]:
    """Findings of the rack for what no GPU here is the root of, and which events (by identity) they explain."""
    outer: dict[int, str] = {}
    findings: list[Finding] = []
    for link, found in sorted(switch_plane(seen).items()):
        finding = _plane(view, link, found)
        findings.append(finding)
        for one in seen:
            near = any(one is other or distance(other, one) is not None for other in found)
            if one.cause is None and near and (is_link_event(one) or one.xid == 154):
                outer.setdefault(id(one), reference(finding))
    for group in rootless([one for one in seen if id(one) not in outer]):
        finding = _no_root(view, group, unread)
        findings.append(finding)
        outer.update({id(one): reference(finding) for one in group})
        for one in seen:
            if one.xid == 154 and one.cause is None and any(distance(other, one) is not None for other in group):
                outer.setdefault(id(one), reference(finding))
    return outer, findings


def _no_root(view: RackView, group: list[Seen], unread: int) -> Finding:
    nodes = sorted({one.node for one in group})
    gpus = {(one.node, one.pci) for one in group}
    numbers = ", ".join(map(str, sorted({one.xid for one in group})))
    fatal = any(one.fatal for one in group)
    when = f" at {group[0].first.time}" if group[0].first.time else ""
    return Finding(
        check=f"{_ID}.no-root",
        status=(Status.UNKNOWN if unread else Status.FAIL) if fatal else Status.WARN,
        subject=f"{view.name} NVLink{when}",
        value=len(gpus),
        unit="GPUs",
        source=SOURCE,
        message=f"XID {numbers} on {len(gpus)} GPUs of {len(nodes)} nodes ({', '.join(nodes[:4])}), no root among them",
        cause=f"the root is elsewhere: a switch, or one of {unread} nodes whose kernel log is not here"
        if unread
        else "the root is elsewhere: a switch tray, or a GPU that logged nothing",
        action=Action.INVESTIGATE,
        health_category="Resource.Hpc.Unhealthy.NvLink" if fatal and not unread else "",
    )


def _bare(pci: str) -> str:
    """Without the function: kernel lines leave it out as often as not."""
    return pci.partition(".")[0]


def _unread(answer: NodeAnswer) -> Finding | None:
    """A finding where the absence of XIDs proves nothing: no log, no right to read it, or only its beginning."""
    missing = unusable(_ID, answer, commands.KERNEL_LOG)
    if missing:
        return missing
    result = answer.results[commands.KERNEL_LOG.id]
    log = kernel_log_of(result.stdout, result.stderr)
    cause = "the login user may not read it: sudo without a password, or the group adm or systemd-journal"
    if result.truncated:
        why = f"only the first {commands.KERNEL_LOG.cap_bytes // 10**6} MB of the kernel log were taken"
        cause = "something floods the kernel log; what came later is not here"
    elif log.lines and log.shaped:
        return None
    else:
        said = next(iter((result.stderr or result.stdout).strip().splitlines()), "it is empty")
        why = f"the kernel log could not be read, so the absence of XIDs proves nothing: {said[:160]}"
    return Finding(
        check=_ID,
        status=Status.UNKNOWN,
        subject="kernel log",
        node=answer.node.name,
        message=why,
        cause=cause,
        action=Action.INVESTIGATE if result.truncated else Action.FIX_IMAGE,
        evidence=f"{answer.node.name}/{commands.KERNEL_LOG.id}",
    )


def _finding(one: Seen, part: str, caused_by: str, explained: Counter[int]) -> Finding:
    first = one.first if one.xid != 154 else one.last
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
        caused_by=caused_by,
        explains=tuple(
            f"XID {xid} on {number} GPU{'s' if number > 1 else ''}" for xid, number in sorted(explained.items())
        ),
    )


def _action(one: Seen) -> Action:
    if one.xid == 154:
        return _RECOVERY.get((one.last.recovery or "").strip().lower(), Action.INVESTIGATE)
    known = XIDS.get(one.xid)
    if one.xid == 149 and is_root(one):
        return Action.REPLACE_AND_REPORT
    return known.action if known else Action.INVESTIGATE


def _fell_off(node: str, text: str) -> Finding:
    return Finding(
        check=f"{_ID}.fell-off-bus",
        status=Status.FAIL,
        subject=f"GPU at {_bare(short_pci(text))}" if ":" in text else "GPU",
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
