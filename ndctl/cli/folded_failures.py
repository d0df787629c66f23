"""Failures of nodes as they are told while a run lasts: those that say the same in one line, under their nodes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ndctl.cli.output import verbosity

if TYPE_CHECKING:
    from ndctl.model.events import Event, EventSink

_HOLD_S = 10.0  # a failure is told by then, with those that came meanwhile; at the latest with the next event
_FINGERPRINT = re.compile(r"\bSHA256:[A-Za-z0-9+/]{40,44}")


class FoldedFailures:
    """A sink before another one, `tell`: what failed on single nodes is held a while and told once for all who say it.

    With -v every node has its own line.
    """

    def __init__(self, tell: EventSink, clock: Callable[[], float] = time.monotonic, hold_s: float = _HOLD_S) -> None:
        self._tell, self._clock, self._hold_s = tell, clock, hold_s
        self._held: list[Event] = []
        self._since = 0.0
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        if event.node and event.status == "failed" and verbosity() == 0:
            with self._lock:
                if not self._held:
                    self._since = self._clock()
                self._held.append(event)
            self._tell_held(only_overdue=True)
            return
        # What is told of no node and no rack comes after the failures it may speak of.
        self._tell_held(only_overdue=bool(event.node or event.rack))
        self._tell(event)

    def flush(self) -> None:
        self._tell_held(only_overdue=False)

    def _tell_held(self, *, only_overdue: bool) -> None:
        with self._lock:
            if not self._held or (only_overdue and self._clock() - self._since < self._hold_s):
                return
            held, self._held = self._held, []
        for event in folded(held):
            self._tell(event)


def folded(events: Iterable[Event]) -> list[Event]:
    """One event for those that differ in nothing but their nodes' names, addresses and key fingerprints; where these
    differ, placeholders stand for them. `node` is then a node set; `data["address"]` is where a node is reached."""
    groups: dict[tuple[str, ...], _Group] = {}
    for event in events:
        shared = _shared(event)
        key = (event.cluster, event.type, event.step, shared)
        groups.setdefault(key, _Group(shared, [])).events.append(event)
    return [group.one() for group in groups.values()]


@dataclass(slots=True)
class _Group:
    shared: str
    events: list[Event]

    def one(self) -> Event:
        from ndctl.report.fold import node_set

        first = self.events[0]
        nodes = {event.node for event in self.events}
        if len(nodes) == 1:
            return first
        same = len({event.message for event in self.events}) == 1
        message = f"{first.message if same else self.shared}   ({len(nodes):,} nodes)"
        rack = first.rack if len({event.rack for event in self.events}) == 1 else ""
        return replace(first, rack=rack, node=node_set(nodes), message=message)


def _shared(event: Event) -> str:
    from ndctl.report.identity import Identity, without_own

    own = Identity((event.node,), (str(event.data.get("address", "")),))
    return _FINGERPRINT.sub("<fingerprint>", without_own(event.message, own))
