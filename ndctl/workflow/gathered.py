"""What a validation has gathered of one cluster so far, and its judgement at any moment.

Kept apart from the asking, so that an interruption loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from ndctl.checks.base import Check
from ndctl.inventory.loader import Loaded
from ndctl.model.answers import NodeAnswer
from ndctl.model.events import Event, EventSink
from ndctl.model.findings import RackResult
from ndctl.model.places import Cluster, Node, Rack
from ndctl.workflow.judge_rack import judge_rack

if TYPE_CHECKING:
    from ndctl.workflow.active import ActiveResult

SETTLE_S = 180.0
SETTLE_EVERY_S = 15.0


@dataclass(slots=True)
class Gathered:
    """What one cluster gave so far; kept apart from judging so that an interruption loses nothing."""

    loaded: Loaded
    cluster: Cluster
    checks: list[Check]
    today: date  # UTC, of the run's start: a check whose waiver ends at midnight is not half waived
    answers: dict[Node, NodeAnswer] = field(default_factory=dict)
    active: dict[str, ActiveResult] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    client: str = ""  # what was wrong with the machine ndctl runs on while it asked


def merged(before: NodeAnswer | None, later: NodeAnswer) -> NodeAnswer:
    """A later answer's results replace earlier ones; a node that stopped answering keeps what it had said."""
    if before is None:
        return later
    return NodeAnswer(later.node, later.outcome, {**before.results, **later.results})


def disabled_checks(loaded: Loaded, today: date) -> dict[str, str]:
    """Check id -> reason, of the entries that have not expired."""
    return {
        entry.check: f"{entry.reason} (until {entry.until})"
        for entry in loaded.inventory.disabled_checks
        if date.fromisoformat(entry.until) >= today
    }


def judged(one: Gathered, rack: Rack) -> RackResult:
    active = one.active.get(rack.name)
    return judge_rack(
        rack,
        one.cluster.name,
        {node: one.answers[node] for node in rack.nodes if node in one.answers},
        one.checks,
        one.loaded.profile,
        active=active.findings if active else (),
        active_required=active.required if active else (),
        disabled=disabled_checks(one.loaded, one.today),
        seconds=one.seconds.get(rack.name, 0.0),
        remarks=active.remarks if active else (),
        client=one.client,
    )


def judge(one: Gathered) -> list[RackResult]:
    return [judged(one, rack) for rack in one.cluster.racks]


def measurements(gathered: list[Gathered]) -> list[dict[str, Any]]:
    rows = []
    for one in gathered:
        for rack, active in one.active.items():
            rows += [{"cluster": one.cluster.name, "rack": rack, **row} for row in active.measurements]
    return rows


def settle(
    one: Gathered,
    ask_again: Callable[[list[Node]], None],
    on_event: EventSink,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Ask racks whose fabric or IMEX still starts again, every SETTLE_EVERY_S, until they settled or SETTLE_S passed.

    Shortly after a boot that is how a healthy rack looks; what has not settled by then is judged as it stands.
    """
    until = clock() + SETTLE_S
    while settling := [rack for rack in one.cluster.racks if is_settling(judged(one, rack))]:
        left = until - clock()
        if left <= 0:
            return
        for rack in settling:
            message = f"fabric or IMEX still starting: asking again for up to {left:.0f} s"
            on_event(Event("collect", "waiting", cluster=one.cluster.name, rack=rack.name, message=message))
        sleep(min(SETTLE_EVERY_S, left))
        ask_again([node for rack in settling for node in rack.nodes])


def is_settling(result: RackResult) -> bool:
    """Whether waiting may help: a fabric registration or an IMEX daemon says that it is starting."""
    return any(f.check.endswith(".settling") for f in result.findings)
