"""What a validation has gathered of one cluster so far, and its judgement at any moment.

Kept apart from the asking, so that an interruption loses nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from ndctl.checks.base import Check
from ndctl.checks.commands import IDENTITY
from ndctl.checks.read_once import forget
from ndctl.checks.verdict import belongs
from ndctl.inventory.loader import Loaded
from ndctl.model.answers import NodeAnswer, OutcomeKind
from ndctl.model.events import Event, EventSink
from ndctl.model.findings import Finding, RackResult
from ndctl.model.places import Cluster, Node, Rack
from ndctl.model.status import Status
from ndctl.parse import key_values
from ndctl.workflow.history import Earlier, hold_against_past
from ndctl.workflow.judge_rack import judge_rack

if TYPE_CHECKING:
    from ndctl.workflow.active import ActiveResult

SETTLE_S = 180.0
SETTLE_EVERY_S = 15.0
SETTLES_WITHIN_S = 1800.0


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
    measured: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # rack -> rows to record, when all is done
    against_past: dict[str, list[Finding]] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)  # rack -> what was wrong with the machine that asked it
    results: dict[str, RackResult] = field(default_factory=dict)  # of racks that are done with, see `done_with`
    required: tuple[str, ...] = ()  # ids of the active tests without whose answer a rack is incomplete


def merged(before: NodeAnswer | None, later: NodeAnswer) -> NodeAnswer:
    """A later answer's results replace earlier ones; a node that stopped answering keeps what it had said. That it was
    not asked once more, because of a stop, does not make it one that never answered."""
    if before is None:
        return later
    stopped = before.outcome.ok and later.outcome.kind is OutcomeKind.INTERRUPTED
    outcome = before.outcome if stopped else later.outcome
    return NodeAnswer(later.node, outcome, {**before.results, **later.results})


def disabled_checks(loaded: Loaded, today: date) -> dict[str, str]:
    """Check id -> reason, of the entries that have not expired."""
    return {
        entry.check: f"{entry.reason} (until {entry.until})"
        for entry in loaded.inventory.disabled_checks
        if date.fromisoformat(entry.until) >= today
    }


def judged(one: Gathered, rack: Rack) -> RackResult:
    if rack.name in one.results:
        return one.results[rack.name]
    active = one.active.get(rack.name)
    required = tuple(dict.fromkeys([*one.required, *(active.required if active else ())]))
    found = active.findings if active else []
    return judge_rack(
        rack,
        one.cluster.name,
        {node: one.answers[node] for node in rack.nodes if node in one.answers},
        one.checks,
        one.loaded.profile,
        active=[*found, *_not_run(rack, required, found)],
        active_required=required,
        disabled=disabled_checks(one.loaded, one.today),
        seconds=one.seconds.get(rack.name, 0.0),
        remarks=active.remarks if active else (),
        client=one.client.get(rack.name, ""),
        exercised=exercised(active.measurements) if active else frozenset(),
        past=one.against_past.get(rack.name, ()),
    )


_JUDGING = threading.Lock()  # racks that are judged at one moment would drive each other's texts out of `read_once`


def done_with(one: Gathered, rack: Rack, earlier: Earlier) -> None:
    """Judge a rack that nobody will ask again, and let go of its texts: half a megabyte of each node, which is in the
    record, and which a run of a thousand nodes would otherwise hold to its end.

    earlier: rack -> values of earlier runs
    """
    with _JUDGING:
        hold_against_past(one, rack, earlier)
        one.results[rack.name] = judged(one, rack)
        for node in rack.nodes:
            one.answers.pop(node, None)
        forget()


def _not_run(rack: Rack, required: Sequence[str], found: Sequence[Finding]) -> list[Finding]:
    """Of the required tests those that nothing is known of: the run was left before their turn."""
    told = [id for id in required if not any(belongs(finding.check, id) for finding in found)]
    return [Finding(check=id, status=Status.SKIP, subject=rack.name, message="was not run") for id in told]


def exercised(measurements: list[dict[str, Any]]) -> frozenset[tuple[str, str]]:
    """(node, InfiniBand device) of both ends of each pair that ib_write_bw got a figure of."""
    found = set()
    for row in measurements:
        device, _, server = str(row.get("subject", "")).partition(" to ")
        if row.get("metric") == "ib_write_bw" and server:
            found |= {(str(row.get("node", "")), device), (server, device)}
    return frozenset(found)


def judge(one: Gathered) -> list[RackResult]:
    return [judged(one, rack) for rack in one.cluster.racks]


def measurements(gathered: list[Gathered]) -> list[dict[str, Any]]:
    rows = []
    for one in gathered:
        unfinished = {rack: active.measurements for rack, active in one.active.items() if rack not in one.measured}
        for rack, measured in {**one.measured, **unfinished}.items():
            rows += [{"cluster": one.cluster.name, "rack": rack, **row} for row in measured]
    return rows


def settle(
    one: Gathered,
    rack: Rack,
    ask_again: Callable[[list[Node]], None],
    on_event: EventSink,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Ask a rack whose fabric or IMEX still starts again, every SETTLE_EVERY_S, until it settled or SETTLE_S passed.

    Shortly after a boot that is how a healthy rack looks; what has not settled by then is judged as it stands.
    """
    until = clock() + SETTLE_S
    while booted_lately(one, rack) and is_settling(judged(one, rack)):
        left = until - clock()
        if left <= 0:
            return
        message = f"fabric or IMEX still starting: asking again for up to {left:.0f} s"
        on_event(Event("collect", "waiting", cluster=one.cluster.name, rack=rack.name, message=message))
        pause = min(SETTLE_EVERY_S, left)
        while pause > 0:
            if stopped():
                return
            sleep(min(1.0, pause))
            pause -= 1.0
        ask_again(list(rack.nodes))


def booted_lately(one: Gathered, rack: Rack) -> bool:
    """Whether a node of the rack came up within SETTLES_WITHIN_S: what still starts long after that does not start.
    True where no node tells."""
    uptimes = [up for node in rack.nodes if (up := _uptime(one.answers.get(node))) is not None]
    return not uptimes or min(uptimes) < SETTLES_WITHIN_S


def _uptime(answer: NodeAnswer | None) -> float | None:
    result = answer.results.get(IDENTITY.id) if answer is not None else None
    try:
        return float(key_values.parse(result.stdout)["uptime_s"]) if result is not None else None
    except (KeyError, ValueError):
        return None


def is_settling(result: RackResult) -> bool:
    """Whether waiting may help: a fabric registration or an IMEX daemon says that it is starting."""
    return any(f.check.endswith(".settling") for f in result.findings)
