"""What the XIDs of one kernel log mean, and which of them explains the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ndctl.checks.texts import xids
from ndctl.checks.texts.gpu_state import recovery_action
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.kernel_log import XidEvent

_NEAR_SECONDS = 60.0
_MOST_ROOTS = 200  # GPUs of a node are few; a text with more of them is no log of one
_LINK_DOWN = 149
_RECOVERY = 154
_SAY_LITTLE = frozenset({43, 45, 63, 94, 154, 171, 172})  # follow from others on the same GPU
_FABRIC = frozenset({144, 145, 146, 147, 148, 150, 137, 74})
# Who is believed first when several fatal ones stand beside each other on a GPU.
_ROOTS = (79, 149, 48, 140, 95, 64, 74, 143, 119, 120, 109, 62, 158, 167, 169)


@dataclass(frozen=True, slots=True)
class _Group:
    """All events of one XID on one GPU (for link-down events: on one side of the blame)."""

    xid: int
    pci: str
    events: tuple[XidEvent, ...]

    @property
    def first(self) -> XidEvent:
        return self.events[0]

    def near(self, other: _Group) -> bool:
        """Within a minute of each other, or of unknown or uncomparable time."""
        for mine in self.events[:50]:
            for theirs in other.events[:50]:
                a, b = mine.seconds, theirs.seconds
                if a is None or b is None or (a < 1e9) != (b < 1e9) or abs(a - b) <= _NEAR_SECONDS:
                    return True
        return False


def xid_findings(events: Sequence[XidEvent]) -> list[Finding]:
    """One finding for each XID and GPU; what a root cause explains says so in `caused_by`."""
    groups = _groups(events)
    findings = [_of_group(group) for group in groups]
    pairs = list(zip(groups, findings, strict=True))
    roots = [(g, f) for g, f in pairs if f.status is Status.FAIL and g.xid != _RECOVERY]
    roots.sort(key=lambda pair: _ROOTS.index(pair[0].xid) if pair[0].xid in _ROOTS else len(_ROOTS))
    del roots[_MOST_ROOTS:]
    explained: dict[int, int] = {}
    for index, (group, finding) in enumerate(pairs):
        candidates = [r for r, f in roots if f is not finding and _explains(r, group)]
        root = next((r for r in candidates if r.pci == group.pci), candidates[0] if candidates else None)
        if root is not None:
            explained[index] = groups.index(root)
    return _with_blame(_switch_side(groups, findings), explained)


def _switch_side(groups: list[_Group], findings: list[Finding]) -> list[Finding]:
    """Several GPUs whose links were all taken down from the other end: what they share is the switch side."""
    suspects = [index for index, group in enumerate(groups) if _peers_only(group)]
    if len(suspects) < 2:
        return findings
    cause = "several GPUs lost links from the other end at once: the switch tray or plane, not these GPUs"
    return [replace(f, cause=cause) if index in suspects else f for index, f in enumerate(findings)]


def _peers_only(group: _Group) -> bool:
    reasons = {event.nvlink.reason for event in group.events if event.nvlink and event.nvlink.severity == "fatal"}
    return group.xid == _LINK_DOWN and bool(reasons) and all(reason in xids.PEER for reason in reasons)


def _groups(events: Sequence[XidEvent]) -> list[_Group]:
    collected: dict[tuple[int, str], list[XidEvent]] = {}
    for event in events:
        collected.setdefault((event.xid, event.pci), []).append(event)
    return [_Group(xid, pci, tuple(found)) for (xid, pci), found in collected.items()]


def _explains(root: _Group, other: _Group) -> bool:
    if not root.near(other):
        return False
    same_gpu = root.pci == other.pci
    if root.xid == _LINK_DOWN and other.xid in (_FABRIC | {45, _RECOVERY}):
        return True  # one broken link shows on every GPU of the domain
    if not same_gpu:
        return False
    if root.xid == 79:
        return other.xid not in {48, 95, 140}
    return other.xid in _SAY_LITTLE and other.xid != root.xid


def _with_blame(findings: list[Finding], explained: dict[int, int]) -> list[Finding]:
    made = list(findings)
    for index, root in explained.items():
        made[index] = replace(made[index], caused_by=f"{findings[root].check}@{findings[root].subject}")
    for root in sorted(set(explained.values())):
        texts = tuple(
            f"{findings[i].check.removeprefix('kernel.').replace('xid-', 'XID ')} of {findings[i].subject}"
            for i in sorted(explained)
            if explained[i] == root
        )
        made[root] = replace(made[root], explains=texts)
    return made


def _of_group(group: _Group) -> Finding:
    if group.xid == _RECOVERY:
        return _recovery(group)
    known = xids.XIDS.get(group.xid)
    if known is None:
        return _make(group, Status.WARN, "an XID that ndctl's table does not have", "", Action.INVESTIGATE)
    if known.tier is xids.Tier.NVLINK5:
        return _nvlink5(group, known)
    status = {
        xids.Tier.INFO: Status.WARN if group.xid == 43 else Status.PASS,
        xids.Tier.NOTICE: Status.WARN,
        xids.Tier.APPLICATION: Status.WARN,
        xids.Tier.RESET: Status.FAIL,
        xids.Tier.RESTART: Status.FAIL,
    }.get(known.tier, Status.FAIL if group.xid in xids.HARDWARE else Status.WARN)
    if known.tier is xids.Tier.APPLICATION or group.xid == 43:
        cause = "an application, unless it comes back on the same GPU with known good programs"
    else:
        cause = known.meaning
    return _make(group, status, known.meaning, cause, known.action)


def _nvlink5(group: _Group, known: xids.Xid) -> Finding:
    decoded = [event.nvlink for event in group.events if event.nvlink]
    fatal = [event for event in decoded if event.severity == "fatal" and not event.injected]
    links = sorted({event.link for event in decoded if event.link is not None})
    where = f" link {', '.join(str(link) for link in links)}" if links else ""
    if decoded and all(event.injected for event in decoded):
        return _make(group, Status.WARN, f"{known.meaning}, injected by a test", "error injection", Action.NONE, where)
    if not decoded:
        message = f"{known.meaning}; how severe it is, is not in the text"
        return _make(group, Status.WARN, message, known.meaning, Action.INVESTIGATE)
    if not fatal:
        message = f"{known.meaning}, not fatal ({', '.join(sorted({event.unit for event in decoded}))})"
        cause = "bit errors on the link: an early sign" if any("BER" in e.unit for e in decoded) else ""
        return _make(group, Status.WARN, message, cause, Action.WATCH, where)
    reasons = sorted({event.reason for event in fatal if event.reason is not None})
    units = ", ".join(sorted({event.unit for event in fatal})) or known.meaning
    cause = "; ".join(dict.fromkeys(xids.link_down_cause(reason) for reason in reasons)) or known.meaning
    told = f", reason {', '.join(str(reason) for reason in reasons)}" if reasons else ""
    return _make(group, Status.FAIL, f"{units} fatal{told}", cause, known.action, where)


def _recovery(group: _Group) -> Finding:
    """The last change counts; the driver's word overrides any table."""
    last = group.events[-1]
    words = last.recovery or ""
    action = recovery_action(words) if words else None
    if action is Action.NONE:
        return _make(group, Status.WARN, "the recovery action is back to None", "an earlier error", Action.WATCH)
    message = f"the driver asks for: {words or last.text[:80]}"
    return _make(group, Status.FAIL, message, "the XIDs before it", action or Action.INVESTIGATE)


def _make(group: _Group, status: Status, message: str, cause: str, action: Action, where: str = "") -> Finding:
    times = f", {len(group.events)} times" if len(group.events) > 1 else ""
    when = f" at {group.first.time}" if group.first.time else ""
    return Finding(
        check=f"kernel.xid-{group.xid}",
        status=status,
        subject=f"GPU {group.pci}{where}",
        value=len(group.events),
        unit="events",
        source=xids.SOURCE,
        message=f"XID {group.xid}: {message}{when}{times}",
        cause="" if status is Status.PASS else cause,
        action=Action.NONE if status is Status.PASS else action,
        health_category=xids.CATEGORY.get(group.xid, "") if status is Status.FAIL else "",
    )
