"""One InfiniBand rail after the other carries all_reduce over the rack alone: a slow rail hides behind three fast ones.

A rail is held against its share of the all-rails floor, where there is one, and against the other rails. Where all are
slow alike it is what they share, not four bad rails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median

from ndctl.jobs.active.base import Outcome, RackUnderTest
from ndctl.jobs.isolation import GroupVerdict
from ndctl.jobs.nccl_asked import over_rail, rails
from ndctl.jobs.nccl_bench import LARGE, Shown
from ndctl.jobs.nccl_rack import NcclOverRack
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.profiles.schema import BandwidthFloor, Known

# Four rails are too few for a modified z; runs of one rail differ by 1 or 2 %.
_BELOW_THE_OTHERS = 0.9
_LEARNED_FROM = "the other rails of this rack, in this run"
_ALIKE = 0.15  # how far apart rails may be that are slow for a reason they share


def one_rail_at_a_time(rack: RackUnderTest, check: str) -> Outcome:
    """Each rail once; the ones that fall out once more, and then the culprit on that rail is looked for."""
    outcome = Outcome()
    tests: dict[str, NcclOverRack] = {}
    shown: dict[str, Shown] = {}
    for rail in rails(rack.profile):
        reason = rack.may_go_on() if shown else ""
        if reason or rack.stopping.stopped:
            outcome.skip(check, rack.rack, f"not every rail was tested: {reason or 'interrupted'}")
            break
        test = tests[rail] = NcclOverRack(rack, over_rail(check, rack.profile, rail))
        with rack.stopping.ended_by(test.stop):
            shown[rail] = _named(test.first(), rail)
    speeds = {rail: one.busbw for rail, one in shown.items() if one.busbw is not None}
    suspected = any(node.name in rack.suspects for node in rack.nodes)
    if _all_slow_alike(shown, speeds) and not suspected:
        outcome.findings.append(_all_slow(rack, check, shown, speeds))
    else:
        for rail, one in shown.items():
            with rack.stopping.ended_by(tests[rail].stop):
                _one(tests[rail], rail, one, _of_others(speeds, rail))
    for test in tests.values():
        outcome.findings += test.outcome.findings
        outcome.texts += test.outcome.texts
        outcome.measurements += test.outcome.measurements
    return outcome


def _one(test: NcclOverRack, rail: str, shown: Shown, others: float | None) -> None:
    """Findings of one rail: by its floor, else by the other rails, which costs a second run before it is blamed."""
    slower = shown.busbw is not None and others is not None and shown.busbw < _BELOW_THE_OTHERS * others
    if shown.verdict is GroupVerdict.GOOD and slower and others is not None:
        test.asked = replace(test.asked, held=_learned(others))
        shown = _named(test.first("again"), rail)
    test.outcome.findings += shown.findings
    test.pursue(shown)
    test.outcome.findings = [
        replace(f, source=_LEARNED_FROM) if f.source.startswith(_LEARNED_FROM) else f for f in test.outcome.findings
    ]


def _named(shown: Shown, rail: str) -> Shown:
    """The findings are about the rail of the rack, not about the rack."""
    findings = tuple(replace(f, subject=f"{f.subject} {rail}") for f in shown.findings)
    return replace(shown, findings=findings)


def _of_others(speeds: Mapping[str, float], rail: str) -> float | None:
    others = [speed for other, speed in speeds.items() if other != rail]
    return median(others) if len(others) > 1 else None


def _learned(others: float) -> BandwidthFloor:
    def known(value: float) -> Known[float]:
        # A figure of this very run needs no date; the finding's source leaves it out.
        return Known[float](value=round(value, 1), unit="GB/s", source=_LEARNED_FROM, date="0000", mark="I")

    warn = others * _BELOW_THE_OTHERS
    return BandwidthFloor(
        test="all_reduce",
        scope="infiniband",
        min_bytes=LARGE,
        expected=known(others),
        warn_below=known(warn),
        fail_below=known(warn / 2),
    )


def _all_slow_alike(shown: Mapping[str, Shown], speeds: Mapping[str, float]) -> bool:
    """Every rail came to a figure, all are below their floor, and none stands out."""
    if len(shown) < 2 or len(speeds) < len(shown):
        return False
    slow = all(any(f.check.endswith(".slow") for f in one.findings) for one in shown.values())
    other = any(
        f.status is Status.FAIL and not f.check.endswith(".slow") for one in shown.values() for f in one.findings
    )
    return slow and not other and min(speeds.values()) >= (1 - _ALIKE) * max(speeds.values())


def _all_slow(rack: RackUnderTest, check: str, shown: Mapping[str, Shown], speeds: Mapping[str, float]) -> Finding:
    first = next(f for f in next(iter(shown.values())).findings if f.check.endswith(".slow"))
    figures = ", ".join(f"{rail} {speed:.0f}" for rail, speed in speeds.items())
    return Finding(
        check=f"{check}.all-slow",
        status=Status.WARN,
        subject=rack.rack,
        value=round(median(speeds.values()), 2),
        unit="GB/s",
        expected=f"{first.expected} on each rail",
        source=first.source,
        message=f"every rail alone is slow, and all alike: {figures} GB/s",
        cause="what they share, not a rail: with one network card for four GPUs, Data Direct (NCCL_IB_DATA_DIRECT) or "
        "the way over C2C; a bad rail would stand out",
        action=Action.INVESTIGATE,
        evidence=first.evidence,
    )
