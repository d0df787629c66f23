"""Who is to blame for the XIDs of a rack: one link's fault makes every GPU of the domain complain.

A root is an event that names a fault of its own GPU. Everything that a root's time and place explains is
sympathetic: it is told, and counts against nobody. Source: NVIDIA's XID catalogue (NVLink 5 events, 45, 154), and a
public incident in which one XID 149 came with sixty-three XIDs 145.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ndctl.checks.texts.xids import HARDWARE, PEER, SOFTWARE, XIDS, Tier
from ndctl.model.status import Status
from ndctl.parse.kernel_log import XidEvent

WINDOW_S = 60.0
_LINK_EVENTS = range(144, 151)


@dataclass(slots=True)
class Seen:
    """All events of one XID on one GPU. `first` is the earliest; `cause` the root that explains them, if any."""

    node: str
    pci: str
    xid: int
    events: list[XidEvent] = field(default_factory=list)
    cause: Seen | None = None

    @property
    def first(self) -> XidEvent:
        return min(self.events, key=lambda e: e.seconds if e.seconds is not None else float("inf"))

    @property
    def fatal(self) -> bool:
        return any(e.nvlink is not None and e.nvlink.severity.lower() == "fatal" for e in self.events)

    @property
    def reasons(self) -> set[int]:
        return {e.nvlink.reason for e in self.events if e.nvlink is not None and e.nvlink.reason is not None}


def gather(by_node: Mapping[str, Sequence[tuple[str, XidEvent]]]) -> list[Seen]:
    """node -> (PCI address, event) → one Seen per node, GPU and XID, in order."""
    found: dict[tuple[str, str, int], Seen] = {}
    for node, events in by_node.items():
        for pci, event in events:
            # An injected error is somebody's test.
            if event.nvlink is not None and event.nvlink.injected:
                continue
            found.setdefault((node, pci, event.xid), Seen(node, pci, event.xid)).events.append(event)
    return list(found.values())


def is_root(seen: Seen) -> bool:
    """Whether these events alone name a fault of this GPU or its link."""
    if seen.xid == 149:
        return seen.fatal and not (seen.reasons and seen.reasons <= (PEER | SOFTWARE))
    if seen.xid in _LINK_EVENTS:
        return False
    known = XIDS.get(seen.xid)
    return known is not None and (known.tier in (Tier.RESET, Tier.RESTART) or seen.xid in HARDWARE)


def near(root: Seen, other: Seen) -> bool:
    """Any two of their events within the window. Times that cannot be read are near nothing in another node."""
    for one in root.events:
        for two in other.events:
            if one.seconds is None or two.seconds is None:
                if root.node == other.node:
                    return True
            elif abs(one.seconds - two.seconds) <= WINDOW_S:
                return True
    return False


def blame(all_seen: Sequence[Seen]) -> None:
    """Set `cause` on what a root explains: link events and 45 anywhere in the rack, 154 and later XIDs on its GPU."""
    roots = [seen for seen in all_seen if is_root(seen)]
    for other in all_seen:
        if is_root(other):
            continue
        same_gpu = [r for r in roots if (r.node, r.pci) == (other.node, other.pci) and near(r, other)]
        if same_gpu:
            other.cause = same_gpu[0]
            continue
        sympathetic = other.xid == 45 or other.xid in _LINK_EVENTS or other.xid == 154
        link_roots = [r for r in roots if r.xid == 149 and near(r, other)]
        same_node = [r for r in roots if r.node == other.node and near(r, other)]
        if sympathetic and (link_roots or (same_node and other.xid in (45, 154))):
            other.cause = (link_roots or same_node)[0]


def status_of(seen: Seen) -> Status:
    """What this XID says alone."""
    if is_root(seen):
        return Status.FAIL
    known = XIDS.get(seen.xid)
    if known is None or seen.xid == 149:
        return Status.WARN
    if seen.xid in _LINK_EVENTS:
        return Status.FAIL if seen.fatal else Status.WARN
    if seen.xid == 154:
        action = (seen.first.recovery or "").strip().lower()
        return Status.PASS if action in ("none", "") else Status.FAIL
    if known.tier in (Tier.NOTICE, Tier.SUPPORT) or seen.xid == 94:
        return Status.WARN
    return Status.PASS


def switch_plane(all_seen: Sequence[Seen]) -> dict[int, list[Seen]]:
    """Link index -> XIDs 149 on two or more nodes that each accuse the peer: the switch behind that link index."""
    by_link: dict[int, list[Seen]] = {}
    for seen in all_seen:
        if seen.xid == 149 and seen.reasons and seen.reasons <= PEER:
            for event in seen.events:
                if event.nvlink is not None and event.nvlink.link is not None:
                    by_link.setdefault(event.nvlink.link, []).append(seen)
    return {link: found for link, found in by_link.items() if len({seen.node for seen in found}) > 1}
