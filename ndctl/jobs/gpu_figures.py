"""One figure of every GPU of a rack, judged in layers: against the profile's floor, and against the rack.

Who is accused by the first measurement is measured once more; only what both say stands. The rack's median of the first
measurement is what both are held against: the second one is of the accused and a few others only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from ndctl.checks.outliers import RELATIVE, SMALLEST_GROUP, outliers
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.profiles.schema import Bounds, Known

FAIL_OFF = 0.07  # an outlier this far below the median is a failure, where it is repeated
OUTLIER_SOURCE = "the rack itself (modified z below -3.5 and over 3.5 % under the median; over 7 % fails)"
_CROWD = 0.5  # where more than this share of the GPUs is below the floor, the rack is slow and no GPU is to blame
_RANK = {Status.PASS: 0, Status.WARN: 1, Status.FAIL: 2}

Key = tuple[str, int]
"""Node name and GPU index, as nvidia-smi counts."""


def shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Floors in the figure's unit, and who says so."""

    expected: float
    warn_below: float
    fail_below: float
    source: str

    @classmethod
    def of_bounds(cls, bounds: Bounds | None) -> Limits | None:
        if bounds is None:
            return None
        values = (bounds.expected, bounds.warn_below, bounds.fail_below)
        sources = dict.fromkeys(one.origin for one in values)
        return cls(values[0].value, values[1].value, values[2].value, "; ".join(sources))

    @classmethod
    def of_known(cls, known: Known[float] | None, warn: float, fail: float) -> Limits | None:
        """Shares of a figure for which nobody publishes a floor."""
        if known is None:
            return None
        source = f"{known.origin}; floors are ndctl's own: {warn:g} and {fail:g} of it"
        return cls(known.value, known.value * warn, known.value * fail, source)

    def status(self, value: float) -> Status:
        return Status.FAIL if value < self.fail_below else Status.WARN if value < self.warn_below else Status.PASS


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of which more is better.

    check: id of the check; name: of the measurement, as history knows it; title: for messages, "GEMM"
    detail: the word that tells its findings from those of another figure of the same check, "" where there is one
    """

    check: str
    name: str
    title: str
    unit: str
    limits: Limits | None
    cause: str
    action: Action
    category: str
    detail: str = ""

    def id(self, word: str) -> str:
        return f"{self.check}.{self.detail}-{word}" if self.detail else f"{self.check}.{word}"


@dataclass(frozen=True, slots=True)
class Accusation:
    """What one measurement says of one GPU. off: fraction under the median, where the rack says so, else 0."""

    status: Status
    value: float
    median: float
    off: float = 0.0


def accused(metric: Metric, values: Mapping[Key, float]) -> dict[Key, Accusation]:
    """Who stands out of one measurement of the rack. A crowd below the floor accuses nobody by the floor."""
    if not values:
        return {}
    found: dict[Key, Accusation] = {}
    for group in _groups(values):
        middle = median(group.values())
        for one in outliers(group):
            status = Status.FAIL if one.off > FAIL_OFF else Status.WARN
            found[one.key] = Accusation(status, one.value, middle, one.off)
    if metric.limits is not None and not crowd_is_slow(metric, values):
        middle = median(values.values())
        for key, value in values.items():
            status = metric.limits.status(value)
            before = found.get(key)
            if status is not Status.PASS and (before is None or _RANK[status] > _RANK[before.status]):
                found[key] = Accusation(status, value, middle, before.off if before else 0.0)
    return found


def crowd_is_slow(metric: Metric, values: Mapping[Key, float]) -> bool:
    if metric.limits is None or len(values) < 2:
        return False
    slow = sum(metric.limits.status(value) is not Status.PASS for value in values.values())
    return slow > _CROWD * len(values) and slow > 1


def _groups(values: Mapping[Key, float]) -> Iterator[dict[Key, float]]:
    """GPUs at one place of their node, where there are enough nodes: that place has effects of its own (cooling,
    bridges). Else all of them."""
    places = {index for _, index in values}
    by_place = [{key: value for key, value in values.items() if key[1] == index} for index in sorted(places)]
    if all(len(group) >= SMALLEST_GROUP for group in by_place):
        yield from by_place
    else:
        yield dict(values)


def judge(
    metric: Metric,
    rack: str,
    first: Mapping[Key, float],
    again: Mapping[Key, float],
    why_not_again: str,
    subject: Callable[[Key], str],
    evidence: Callable[[Key], str],
) -> list[Finding]:
    """Findings of one figure.

    again:         the second measurement, of at least the accused; empty where there was none
    why_not_again: why there was none
    evidence:      where the raw text of a GPU's figure is
    """
    if not first:
        return []
    middle = median(first.values())
    findings: list[Finding] = []
    if crowd_is_slow(metric, first):
        findings.append(_whole_rack(metric, rack, first, again, middle, evidence))
    cleared: list[str] = []
    accusations = accused(metric, first)
    for key, one in sorted(accusations.items()):
        second = again.get(key)
        if second is None:
            findings.append(_not_again(metric, key, one, why_not_again, subject, evidence))
            continue
        status = _both(metric, one, second)
        if status is Status.PASS:
            cleared.append(f"{key[0]} GPU {key[1]} ({shown(one.value)}, then {shown(second)})")
        else:
            findings.append(_slow(metric, key, one, second, status, subject, evidence))
    if not findings:
        findings.append(_pass(metric, rack, first, middle, cleared))
    return findings


def _both(metric: Metric, one: Accusation, second: float) -> Status:
    """What both measurements say: the milder of the two, each by floor or by the rack."""
    by_floor = metric.limits.status(second) if metric.limits is not None else Status.PASS
    off = 1 - second / one.median if one.median > 0 else 0.0
    by_rack = Status.PASS
    if one.off and off > RELATIVE:
        by_rack = Status.FAIL if off > FAIL_OFF else Status.WARN
    return min(one.status, max(by_floor, by_rack, key=_RANK.__getitem__), key=_RANK.__getitem__)


def _expected(metric: Metric, middle: float, off: float) -> tuple[str, str]:
    """What the figure was held against, and who says so."""
    told, sources = [], []
    if metric.limits is not None:
        limits = metric.limits
        told.append(
            f"{shown(limits.expected)} {metric.unit}; warn below {shown(limits.warn_below)}, "
            f"fail below {shown(limits.fail_below)}"
        )
        sources.append(limits.source)
    if off or metric.limits is None:
        told.append(f"the rack's median is {shown(middle)} {metric.unit}")
        sources.append(OUTLIER_SOURCE)
    return "; ".join(told), "; ".join(sources)


def _slow(
    metric: Metric,
    key: Key,
    one: Accusation,
    second: float,
    status: Status,
    subject: Callable[[Key], str],
    evidence: Callable[[Key], str],
) -> Finding:
    best = max(one.value, second)
    expected, source = _expected(metric, one.median, one.off)
    under = f", {(1 - best / one.median):.1%} under the rack's median" if one.median > best else ""
    return Finding(
        check=metric.id("slow"),
        status=status,
        subject=subject(key),
        node=key[0],
        value=round(best, 1),
        unit=metric.unit,
        expected=expected,
        source=source,
        message=f"{metric.title} at {shown(one.value)} and, asked again, {shown(second)} {metric.unit}{under}",
        cause=metric.cause,
        action=metric.action if status is Status.FAIL else Action.WATCH,
        evidence=evidence(key),
        health_category=metric.category if status is Status.FAIL else "",
    )


def _not_again(
    metric: Metric,
    key: Key,
    one: Accusation,
    why: str,
    subject: Callable[[Key], str],
    evidence: Callable[[Key], str],
) -> Finding:
    expected, source = _expected(metric, one.median, one.off)
    return Finding(
        check=metric.id("not-confirmed"),
        status=Status.UNKNOWN,
        subject=subject(key),
        node=key[0],
        value=round(one.value, 1),
        unit=metric.unit,
        expected=expected,
        source=source,
        message=f"{metric.title} at {shown(one.value)} {metric.unit}, and it could not be asked again"
        + (f": {why}" if why else ""),
        cause="slow once: that accuses nobody",
        action=Action.INVESTIGATE,
        evidence=evidence(key),
    )


def _whole_rack(
    metric: Metric,
    rack: str,
    first: Mapping[Key, float],
    again: Mapping[Key, float],
    middle: float,
    evidence: Callable[[Key], str],
) -> Finding:
    limits = metric.limits
    assert limits is not None
    slow = sum(limits.status(value) is not Status.PASS for value in first.values())
    status = limits.status(middle)
    if again:
        status = min(status, limits.status(median(again.values())), key=_RANK.__getitem__)
    expected, source = _expected(metric, middle, 0.0)
    return Finding(
        check=metric.id("all-slow"),
        status=Status.WARN if status is Status.PASS else status,
        subject=rack,
        value=round(middle, 1),
        unit=metric.unit,
        expected=expected,
        source=source,
        message=f"{metric.title}: {slow} of {len(first)} GPUs are below the floor, the median {shown(middle)} "
        f"{metric.unit}: it is the rack, no GPU",
        cause="power or cooling of the rack, a setting of all nodes, or another version than the floor is of",
        action=Action.INVESTIGATE,
        evidence=evidence(min(first, key=first.__getitem__)),
    )


def _pass(metric: Metric, rack: str, first: Mapping[Key, float], middle: float, cleared: list[str]) -> Finding:
    slowest = min(first, key=first.__getitem__)
    expected, source = _expected(metric, middle, 0.0)
    note = f"; good when asked again: {', '.join(cleared[:4])}" if cleared else ""
    return Finding(
        check=metric.check,
        status=Status.PASS,
        subject=rack,
        value=round(first[slowest], 1),
        unit=metric.unit,
        expected=expected,
        source=source,
        message=f"{metric.title} of {len(first)} GPUs: median {shown(middle)} {metric.unit}, slowest "
        f"{shown(first[slowest])} ({slowest[0]} GPU {slowest[1]}){note}",
    )
