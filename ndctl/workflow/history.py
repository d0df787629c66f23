"""What a cluster's racks measured in this run, held against what the record has of earlier runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ndctl.checks.followed import followed
from ndctl.checks.history import held_against_past

if TYPE_CHECKING:
    from ndctl.model.places import Rack
    from ndctl.record.past import Measured
    from ndctl.workflow.gathered import Gathered

Earlier = Callable[[str], Mapping["Measured", tuple[float, ...]]]


def hold_against_past(one: Gathered, rack: Rack, earlier: Earlier) -> None:
    """Add to a rack what was measured of it, and the warnings its past gives rise to.

    earlier: rack -> values of earlier runs
    """
    active = one.active.get(rack.name)
    measured: list[dict[str, Any]] = list(active.measurements) if active else []
    for node in rack.nodes:
        if node in one.answers:
            measured += [dict(row) for row in followed(one.answers[node])]
    one.measured[rack.name] = measured
    if measured:
        past = {(m.node, m.metric, m.subject): values for m, values in earlier(rack.name).items()}
        one.against_past[rack.name] = held_against_past(measured, past)
