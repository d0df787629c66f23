"""A rack held against its own past: slower than it was, or a counter that grows from run to run.

History alone never fails anything: the past may have been lucky, and drivers change. It says where to look.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from ndctl.checks.outliers import MODIFIED_Z, SMALLEST_GROUP, spread
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status

PREFIX = "history"
FEWEST = 3  # earlier runs, below which there is no past to speak of
OFF = 0.05  # fraction of the median that is more than the scatter from run to run
GROWING = 5  # runs, this one included, in each of which a counter stood higher than in the one before
_LESS_IS_WORSE = frozenset(("GB/s", "Gb/s", "MB/s", "Gbit/s", "TB/s", "TFLOPS", "GFLOPS", "TFLOP/s", "GFLOP/s"))
_MORE_IS_WORSE = frozenset(("us", "µs", "ms", "s", "°C", "C"))
_HEAT = frozenset(("°C", "C"))
_HOTTER = 10.0  # °C; below it the room explains it
_COUNTED = frozenset(("recoveries", "rows"))


def against_past(
    node: str, metric: str, subject: str, value: float, unit: str, earlier: Sequence[float]
) -> Finding | None:
    """A warning `history.<metric>`, None when there is nothing to say.

    value:   of this run; earlier: the same measurement in earlier runs, oldest first
    unit:    tells which side is worse; of an unknown unit nothing is said
    """
    if not math.isfinite(value):
        return None
    past = [one for one in earlier if math.isfinite(one)]
    if unit in _COUNTED:
        return _growing(node, metric, subject, value, unit, past)
    if unit in _LESS_IS_WORSE or unit in _MORE_IS_WORSE:
        return _off(node, metric, subject, value, unit, past)
    return None


def _off(node: str, metric: str, subject: str, value: float, unit: str, past: Sequence[float]) -> Finding | None:
    if len(past) < FEWEST:
        return None
    usual = median(past)
    worse = usual - value if unit in _LESS_IS_WORSE else value - usual
    if usual <= 0 or worse <= OFF * usual or (unit in _HEAT and worse < _HOTTER):
        return None
    if len(past) >= SMALLEST_GROUP and worse <= MODIFIED_Z * spread(past):
        return None  # it has always scattered that much
    how = {True: "lower", False: "hotter" if unit in _HEAT else "higher"}[unit in _LESS_IS_WORSE]
    return Finding(
        check=f"{PREFIX}.{metric}",
        status=Status.WARN,
        subject=subject,
        node=node,
        value=value,
        unit=unit,
        expected=f"{usual:.4g} {unit}",
        source=f"median of {len(past)} earlier runs of this record in which the rack was accepted or degraded",
        message=f"{value:.4g} {unit}, {worse / usual:.1%} {how} than its own past ({usual:.4g} {unit})",
        cause="a part that begins to fail, another driver or image, or a node that was replaced since",
        action=Action.WATCH,
    )


def _growing(node: str, metric: str, subject: str, value: float, unit: str, past: Sequence[float]) -> Finding | None:
    last = [*past[-(GROWING - 1) :], value]
    if len(last) < GROWING or any(after <= before for before, after in pairwise(last)):
        return None
    slope = (last[-1] - last[0]) / (GROWING - 1)
    return Finding(
        check=f"{PREFIX}.{metric}",
        status=Status.WARN,
        subject=subject,
        node=node,
        value=value,
        unit=unit,
        expected="no growth from run to run",
        source=f"the last {GROWING} runs of this record in which the rack was accepted or degraded",
        message=f"growing for {GROWING} runs: {', '.join(f'{one:g}' for one in last)} {unit} ({slope:.3g} a run)",
        cause="the link retrains more and more often" if unit == "recoveries" else "the memory wears",
        action=Action.WATCH,
    )


def held_against_past(
    measured: Sequence[Mapping[str, object]], earlier: Mapping[tuple[str, str, str], Sequence[float]]
) -> list[Finding]:
    """The warnings about one rack, in the order of what was measured.

    measured: {node, metric, subject, value, unit}; earlier: (node, metric, subject) -> values, oldest first.
    Of what was measured several times in a run only the last counts.
    """
    last = {tuple(str(one.get(key) or "") for key in ("node", "metric", "subject")): one for one in measured}
    findings = []
    for (node, metric, subject), one in last.items():
        value, unit = one.get("value"), str(one.get("unit") or "")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            past = earlier.get((node, metric, subject), ())
            finding = against_past(node, metric, subject, float(value), unit, past)
            if finding is not None:
                findings.append(finding)
    return findings


def beside(past: Sequence[Finding], findings: Sequence[Finding]) -> list[Finding]:
    """Of the warnings of `past` those about parts that nothing in `findings` accuses: a failure says it better."""
    failing = {finding.node for finding in findings if finding.status is Status.FAIL}
    return [
        one
        for one in past
        if one.node not in failing
        and not (one.node == "" and failing)
        and not any(node and node in one.subject for node in failing)
    ]
