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
_UPTIME = 1e8  # smaller figures are seconds since boot, larger ones of the calendar
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
    def last(self) -> XidEvent:
        """The latest by time; by its place in the log where times cannot be read."""
        return max(
            enumerate(self.events), key=lambda e: (e[1].seconds if e[1].seconds is not None else float("-inf"), e[0])
        )[1]

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


def distance(root: Seen, other: Seen) -> float | None:
    """Seconds between their closest events, None beyond the window. Times that cannot be read are near everything of
    their own node, and nothing of another; nor are seconds since boot, which each node counts from its own."""
    same = root.node == other.node
    both = [
        abs(one.seconds - two.seconds)
        for one in root.events
        for two in other.events
        if one.seconds is not None and two.seconds is not None and (same or min(one.seconds, two.seconds) > _UPTIME)
    ]
    if not both:
        return 0.0 if same else None
    return min(both) if min(both) <= WINDOW_S else None


def blame(all_seen: Sequence[Seen]) -> None:
    """Set `cause` on what a root explains: link events and 45 anywhere in the rack, 154 and later XIDs on its GPU.

    Of several roots the nearest is the cause: of the same GPU, else of the same node, else of the closest time.
    """
    roots = [seen for seen in all_seen if is_root(seen)]
    for other in all_seen:
        if is_root(other):
            continue
        fitting: list[tuple[bool, bool, float, int, Seen]] = []
        for root in roots:
            apart = distance(root, other)
            if apart is not None and _can_cause(root, other):
                fitting.append((root.node != other.node, root.pci != other.pci, apart, len(fitting), root))
        if fitting:
            other.cause = min(fitting)[-1]


def _can_cause(root: Seen, other: Seen) -> bool:
    if (root.node, root.pci) == (other.node, other.pci):
        return True
    if other.xid not in (45, 154) and other.xid not in _LINK_EVENTS:
        return False
    return root.xid == 149 or (root.node == other.node and other.xid in (45, 154))


def is_link_event(seen: Seen) -> bool:
    """An event of NVLink 5 that any GPU of the domain may show for a fault elsewhere."""
    return seen.xid in _LINK_EVENTS and not is_root(seen)


def rootless(all_seen: Sequence[Seen]) -> list[list[Seen]]:
    """Link events of two or more nodes at one time that no root explains: the fault is elsewhere (a switch, or a node
    that gave no log), and what several nodes see at once is none of theirs. Grouped by time, those without one last.
    """
    left = sorted(
        (seen for seen in all_seen if is_link_event(seen) and seen.cause is None),
        key=lambda seen: (_moment(seen) is None, _moment(seen) or 0.0),
    )
    groups: list[list[Seen]] = []
    for seen in left:
        if groups and _at_one_time(groups[-1][-1], seen):
            groups[-1].append(seen)
        else:
            groups.append([seen])
    return [group for group in groups if len({seen.node for seen in group}) > 1]


def _at_one_time(one: Seen, two: Seen) -> bool:
    first, second = _moment(one), _moment(two)
    if first is None or second is None:
        return first is second
    return abs(second - first) <= WINDOW_S


def _moment(seen: Seen) -> float | None:
    """When it was first seen, on a clock that all nodes share; None where it tells no such time."""
    seconds = seen.first.seconds
    return seconds if seconds is not None and seconds > _UPTIME else None


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
        action = (seen.last.recovery or "").strip().lower()
        return Status.PASS if action in ("none", "") else Status.FAIL
    if known.tier in (Tier.NOTICE, Tier.SUPPORT) or seen.xid == 94:
        return Status.WARN
    return Status.PASS


def switch_plane(all_seen: Sequence[Seen]) -> dict[int, list[Seen]]:
    """Link index -> XIDs 149 on two or more nodes that each accuse the peer: the switch behind that link index."""
    by_link: dict[int, list[Seen]] = {}
    for seen in all_seen:
        if seen.xid == 149 and seen.cause is None and seen.reasons and seen.reasons <= PEER:
            for event in seen.events:
                if event.nvlink is not None and event.nvlink.link is not None:
                    by_link.setdefault(event.nvlink.link, []).append(seen)
    return {link: found for link, found in by_link.items() if len({seen.node for seen in found}) > 1}
