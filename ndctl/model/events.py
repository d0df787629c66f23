"""Events: the only seam between running and showing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

EVENT_SCHEMA = "ndctl.event/1"


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to a cluster, rack or node.

    type:   "plan" | "deploy" | "rack" | "collect" | "job" | "judge" | "destroy" | "note"; "rack": where its work is
    data:   "aside": true where `aside` holds; "address" of a node that failed
    status: "started" | "running" | "done" | "failed" | "waiting"
    """

    type: str
    status: str
    cluster: str = ""
    rack: str = ""
    node: str = ""
    step: str = ""
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] = field(default_factory=dict)
    next_step: str = ""

    @property
    def aside(self) -> bool:
        """Whether only somebody who asks for more of the story (-v) wants to see it."""
        return self.data.get("aside") is True


EventSink = Callable[[Event], None]


def ignore_events(event: Event) -> None:
    """The sink of a caller that shows nothing."""
