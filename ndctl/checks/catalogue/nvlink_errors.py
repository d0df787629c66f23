"""NVLink error counters: what grew during this run. Totals hold link training and old events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.gpus import named
from ndctl.checks.read_once import link_errors_of
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.nvlink_errors import NvlinkErrors
from ndctl.profiles.schema import Profile

_ID = "nvlink.errors"
# Forward error correction repairs these by design; only their trend says something.
_BENIGN = ("corrected", "fec", "correctable")
_RECOVERY = "recovery"  # a link that retrained under traffic: works again, and announces that it will not for long

Place = tuple[int, int]  # index of a GPU, number of its link


def _values(facts: NvlinkErrors) -> dict[Place, Mapping[str, int]]:
    """Of every link that is listed, the counters that have a value."""
    found: dict[Place, Mapping[str, int]] = {}
    known: dict[int, dict[str, int]] = {}  # links that print the same share their counters, which `facts` holds
    for gpu in facts.gpus:
        if gpu.index is None:
            continue
        for link in gpu.links:
            told = known.get(id(link.counters))
            if told is None:
                told = {name: value for name, value in link.counters.items() if value is not None}
                known[id(link.counters)] = told
            place = (gpu.index, link.link)
            found[place] = {**found[place], **told} if place in found else told
    return found


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    for command in (commands.NVLINK_ERRORS_BEFORE, commands.NVLINK_ERRORS_AFTER):
        missing = unusable(_ID, answer, command)
        if missing:
            return [missing]
    texts = [answer.results[one.id].stdout for one in (commands.NVLINK_ERRORS_BEFORE, commands.NVLINK_ERRORS_AFTER)]
    before = _values(link_errors_of(texts[0]))
    after = before if texts[1] == texts[0] else _values(link_errors_of(texts[1]))  # nothing was sent meanwhile
    raw = evidence(answer, commands.NVLINK_ERRORS_AFTER)
    both = (
        {place: counters.keys() for place, counters in before.items()}
        if after is before
        else {place: before[place].keys() & after[place].keys() for place in before.keys() & after.keys()}
    )
    counted = sum(map(len, both.values()))
    if not counted:
        return [
            Finding(
                check=_ID,
                status=Status.SKIP,
                subject="NVLink counters",
                node=answer.node.name,
                message="this driver shows no NVLink error counters, so growth can't be seen",
                evidence=raw,
            )
        ]
    grown: dict[Place, dict[str, int]] = {}
    for place, names in both.items():
        if before[place] == after[place]:
            continue
        for name in names:
            old, new = before[place][name], after[place][name]
            more = new - old if new >= old else new
            if more > 0 and not any(word in name.lower() for word in _BENIGN):
                grown.setdefault(place, {})[name] = more
    findings = [named(_of_link(index, link, names, answer), answer) for (index, link), names in sorted(grown.items())]
    findings += _untold(both, before.keys() | after.keys(), answer)
    if any(finding.status is Status.WARN for finding in findings):
        return findings
    findings.append(
        Finding(
            check=_ID,
            status=Status.PASS,
            subject="NVLink counters",
            node=answer.node.name,
            value=counted,
            unit="counters",
            message=f"none of {counted} NVLink error counters grew{_recovered_before(after)}",
            evidence=raw,
        )
    )
    return findings


def _untold(told: Mapping[Place, Collection[str]], listed: Collection[Place], answer: NodeAnswer) -> list[Finding]:
    """Links that lack a counter which most of the node's links tell: of those it is not known whether it grew."""
    first = next(iter(told.values()), ())
    if told.keys() >= set(listed) and all(names == first for names in told.values()):
        return []  # all tell the same, as nearly always
    per_name = Counter(name for names in told.values() for name in names)
    links = sum(1 for names in told.values() if names)
    common = {name for name, count in per_name.items() if 2 * count > links}
    lacking = sorted(place for place in listed if not common <= set(told.get(place, ())))
    if not lacking:
        return []
    named_ones = ", ".join(f"GPU {index} link {link}" for index, link in lacking[:3])
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    return [
        Finding(
            check=_ID,
            status=Status.SKIP,
            subject=f"{named_ones}{more}",
            node=answer.node.name,
            value=len(lacking),
            unit="links",
            message="counters that the other links tell have no value here, so their growth can't be seen",
            evidence=evidence(answer, commands.NVLINK_ERRORS_AFTER),
        )
    ]


def _of_link(index: int, link: int, grown: Mapping[str, float], answer: NodeAnswer) -> Finding:
    """One finding for one link, whatever number of its counters grew."""
    recoveries = {name: more for name, more in grown.items() if _RECOVERY in name.lower()}
    only = len(recoveries) == len(grown) and not any("fail" in name.lower() for name in recoveries)
    worst = max(grown, key=lambda name: (grown[name], name))
    told = ", ".join(f"{name} +{more:g}" for name, more in sorted(grown.items()))
    return Finding(
        check=f"{_ID}.recovery" if only else _ID,
        status=Status.WARN,
        subject=f"GPU {index} link {link}",
        node=answer.node.name,
        value=grown[worst],
        unit="recoveries" if only else "events",
        expected="no growth during a run",
        source="NVLink error counters are cumulative; only growth tells of now",
        message=f"the link recovers: {told} during this run; such a link fails within days"
        if only
        else f"{told} during this run",
        cause="a marginal NVLink: cable cartridge, connector or switch port",
        action=Action.WATCH,
        evidence=evidence(answer, commands.NVLINK_ERRORS_AFTER),
        health_category="Resource.Hpc.Unhealthy.NvLink",
    )


def _recovered_before(after: Mapping[Place, Mapping[str, int]]) -> str:
    """The link that recovered most often so far: training at boot is in it, so it is told and not judged."""
    names = [
        name for name in set[str]().union(*after.values()) if _RECOVERY in name.lower() and "total" in name.lower()
    ]
    totals = [(counters[name], place) for place, counters in after.items() for name in names if name in counters]
    most, (index, link) = max(totals, key=lambda one: one[0], default=(0, (0, 0)))
    if not most:
        return ""
    times = f"{most:g} times since the driver was loaded"
    return f"; GPU {index} link {link} recovered most often, {times}"


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="NVLink error counters do not grow",
    commands=(commands.NVLINK_ERRORS_BEFORE, commands.NVLINK_ERRORS_AFTER, commands.NVIDIA_SMI_XML),
    judge_node=_judge_node,
    required=False,
)
