"""What clocks, temperatures and clock event counters under load say of each GPU.

Counters are told by their growth over the run: a slowdown between two samples is seen too. A GPU is held against the
others at its place of their nodes, since cooling reaches the places of a tray one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ndctl.checks.outliers import SMALLEST_GROUP, outliers
from ndctl.jobs.gemm import SECONDS, NodeLoad
from ndctl.jobs.gpu_figures import Key, Metric
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.gpu_samples import Reading
from ndctl.profiles.schema import Profile

CHECK = "gpu.thermals"
CATEGORY = "Resource.Hpc.Unhealthy.HpcDcgmiThermalReport"
HOTTER_C = 10.0  # over the rack's median
LOADED_PERCENT = 90.0
_SLOWED_SHARE = 0.01  # of the run's time; less is a warning
_SLOWDOWNS = {
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "sw_thermal_slowdown": "software thermal slowdown",
    "hw_power_brake_slowdown": "power brake",
}
# NVML's nvmlClocksEventReasons; a software power cap (0x4) is what full load looks like.
_BITS = {0x08: "hardware slowdown", 0x20: "software thermal slowdown", 0x40: "hardware thermal slowdown",
         0x80: "power brake"}  # fmt: skip
_RULE = "ndctl (healthy GPUs do not slow down for heat or the power brake)"


@dataclass(frozen=True, slots=True)
class Heat:
    """One GPU under load. None is what no sample told.

    slowed: words of a slowdown -> share of the run, by the counters (counted: whether they were told)
    seen:   words of slowdowns that samples showed as active -> in how many
    """

    samples: int
    celsius: float | None
    memory_celsius: float | None
    margin_celsius: float | None
    sm_mhz: float | None
    watts: float | None
    slowed: Mapping[str, float]
    seen: Mapping[str, int]
    counted: bool


def heats(load: NodeLoad, seconds: float = SECONDS) -> dict[int, Heat]:
    """Each GPU's heat, by the samples in which it was loaded."""
    found = {}
    for index in load.gpus:
        during = [sample[index] for sample in load.during.samples if index in sample]
        loaded = [r for r in during if r.utilization is None or r.utilization >= LOADED_PERCENT]
        slowed, counted = _growth(_only(load.before.samples, index), _only(load.after.samples, index), seconds)
        seen: dict[str, int] = {}
        for reading in loaded:
            for bit, word in _BITS.items():
                if (reading.reasons or 0) & bit:
                    seen[word] = seen.get(word, 0) + 1
        found[index] = Heat(
            samples=len(loaded),
            celsius=max((r.celsius for r in loaded if r.celsius is not None), default=None),
            memory_celsius=max((r.memory_celsius for r in loaded if r.memory_celsius is not None), default=None),
            margin_celsius=min((r.margin_celsius for r in loaded if r.margin_celsius is not None), default=None),
            sm_mhz=_middle([r.sm_mhz for r in loaded]),
            watts=max((r.watts for r in loaded if r.watts is not None), default=None),
            slowed=slowed,
            seen=seen,
            counted=counted,
        )
    return found


def _only(samples: Sequence[Mapping[int, Reading]], index: int) -> Reading | None:
    return samples[-1].get(index) if samples else None


def _growth(before: Reading | None, after: Reading | None, seconds: float) -> tuple[dict[str, float], bool]:
    """Shares of the run, and whether any counter was told before and after."""
    shares: dict[str, float] = {}
    counted = False
    for name, word in _SLOWDOWNS.items():
        old = before.counters.get(name) if before is not None else None
        new = after.counters.get(name) if after is not None else None
        if old is None or new is None:
            continue
        counted = True
        grown = new - old if new >= old else new  # the driver was loaded anew in between
        if grown > 0:
            shares[word] = min(1.0, grown / 1e6 / seconds)
    return shares, counted


def _middle(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return median(told) if told else None


def clock_metric() -> Metric:
    """The SM clock under load: no figure is published, so only the rack judges."""
    return Metric(
        check=CHECK,
        name="gpu.thermals.sm-clock",
        title="SM clock under load",
        unit="MHz",
        limits=None,
        cause="heat, power or a setting that holds this GPU's clock down",
        action=Action.INVESTIGATE,
        category="",  # without heat it is no thermal report
        detail="clock",
    )


Told = dict[tuple[str, int, str], "Trouble"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing wrong with one GPU in one run."""

    word: str
    status: Status
    message: str
    value: float
    unit: str
    expected: str
    source: str


def troubles(every: Mapping[Key, Heat], profile: Profile, against: Mapping[Key, Heat] | None = None) -> Told:
    """(node, GPU, word) -> trouble. against: the heats of the whole rack, where `every` is only a part of it."""
    found: Told = {}
    limit = profile.gpu.hbm_limit_c
    for key, heat in every.items():
        slow = _slowed(heat)
        if slow is not None:
            found[(*key, slow.word)] = slow
        if limit is not None and heat.memory_celsius is not None and heat.memory_celsius >= limit.value:
            found[(*key, "hbm-hot")] = Trouble(
                "hbm-hot", Status.FAIL, f"memory at {heat.memory_celsius:g} °C under load", heat.memory_celsius, "°C",
                f"below {limit.value:g} °C", limit.origin,
            )  # fmt: skip
        elif heat.margin_celsius is not None and heat.margin_celsius <= 0:
            text = f"no margin left before it slows down ({heat.margin_celsius:g} °C)"
            found[(*key, "no-margin")] = Trouble(
                "no-margin", Status.FAIL, text, heat.margin_celsius, "°C", "above 0 °C", "nvidia-smi's own T.Limit"
            )
    found |= _hotter(every, against if against is not None else every)
    return found


def _slowed(heat: Heat) -> Trouble | None:
    expected = f"none; fail from {_SLOWED_SHARE:.0%} of the run's time"
    if heat.slowed:
        word, share = max(heat.slowed.items(), key=lambda one: one[1])
        status = Status.FAIL if share >= _SLOWED_SHARE else Status.WARN
        text = f"{word} for {share:.1%} of the run"
        return Trouble("throttled", status, text, round(share * 100, 2), "% of the run", expected, _RULE)
    if heat.seen and not heat.counted:
        word, times = max(heat.seen.items(), key=lambda one: one[1])
        status = Status.FAIL if times > 1 else Status.WARN
        text = f"{word} in {times} of {heat.samples} samples"
        return Trouble("throttled", status, text, times, "samples", "none; fail from 2 samples on", _RULE)
    return None


def _hotter(every: Mapping[Key, Heat], against: Mapping[Key, Heat]) -> Told:
    """Who is far hotter than the others at its place."""
    found: Told = {}
    for what, of in _TEMPERATURES:
        told = {key: value for key, heat in {**against, **every}.items() if (value := of(heat)) is not None}
        for group in _by_place(told):
            for one in outliers(group, "high", relative=0.0, absolute=HOTTER_C):
                key = one.key
                if key not in every or (*key, "hotter") in found:
                    continue
                text = f"{what} at {one.value:g} °C under load, {one.value - one.median:.0f} °C over the rack's median"
                found[(*key, "hotter")] = Trouble(
                    "hotter", Status.WARN, text, one.value, "°C",
                    f"at most {HOTTER_C:g} °C over the rack's median of {one.median:g} °C", "the rack itself",
                )  # fmt: skip
    return found


_TEMPERATURES: tuple[tuple[str, Callable[[Heat], float | None]], ...] = (
    ("GPU", lambda heat: heat.celsius),
    ("memory", lambda heat: heat.memory_celsius),
)


def _by_place(values: Mapping[Key, float]) -> list[dict[Key, float]]:
    places = sorted({index for _, index in values})
    groups = [{key: value for key, value in values.items() if key[1] == place} for place in places]
    return groups if all(len(group) >= SMALLEST_GROUP for group in groups) else [dict(values)]


_CAUSES = {
    "throttled": "cooling (a cold plate, flow, or the rack's water), or power",
    "hbm-hot": "cooling of this GPU's memory: a cold plate or flow",
    "no-margin": "cooling of this GPU: a cold plate or flow",
    "hotter": "cooling of this GPU or tray: a cold plate or flow",
}


def findings_of(
    first: Told, again: Told | None, subject: Callable[[Key], str], evidence: Callable[[Key], str]
) -> list[Finding]:
    """What both runs say. again: None where the accused were not loaded once more: then nobody is failed."""
    findings = []
    for (node, index, word), one in sorted(first.items()):
        second = again.get((node, index, word)) if again is not None else None
        if again is not None and second is None:
            continue
        both = second is not None and one.status is second.status is Status.FAIL
        status = Status.FAIL if both else Status.WARN
        more = f"; asked again: {second.message}" if second is not None else "; it could not be asked again"
        findings.append(
            Finding(
                check=f"{CHECK}.{word}",
                status=status,
                subject=subject((node, index)),
                node=node,
                value=one.value,
                unit=one.unit,
                expected=one.expected,
                source=one.source,
                message=one.message + more,
                cause=_CAUSES[word],
                action=Action.REPLACE_AND_REPORT if both else Action.WATCH,
                evidence=evidence((node, index)),
                health_category=CATEGORY if both else "",
            )
        )
    return findings
