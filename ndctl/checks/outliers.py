"""Which of a group of like parts falls out of it: modified z and a relative floor, both, one-sided.

Classic z cannot see two bad parts among eighteen (masking), and a bare modified z accuses a healthy part in every
twentieth rack, so a part stands out only when M is beyond 3.5 *and* it is more than 3.5 % on the bad side of the
median. M_i = 0.6745 (x_i - median) / MAD (Iglewicz and Hoaglin 1993). Where more than half of the values are equal the
MAD is 0: then 1.2533 × the mean absolute deviation takes its place, and where that is 0 too nothing stands out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Generic, Literal, TypeVar

K = TypeVar("K")

SMALLEST_GROUP = 8  # below it the median itself is too uncertain: only the profile's floor judges
MODIFIED_Z = 3.5
RELATIVE = 0.035
_MAD_TO_SIGMA = 0.6745
_MEAN_TO_SIGMA = 1.2533


@dataclass(frozen=True, slots=True)
class Outlier(Generic[K]):
    """value against the group: `off` is the fraction on the bad side of the median, e.g. 0.12 for 12 %."""

    key: K
    value: float
    median: float
    modified_z: float
    off: float


def spread(values: Iterable[float]) -> float:
    """What M divides by, in the values' unit; 0 where all are equal."""
    known = list(values)
    middle = median(known)
    deviations = [abs(value - middle) for value in known]
    return median(deviations) / _MAD_TO_SIGMA or fmean(deviations) * _MEAN_TO_SIGMA


def outliers(
    values: Mapping[K, float],
    bad: Literal["low", "high"] = "low",
    *,
    relative: float = RELATIVE,
    absolute: float = 0.0,
    smallest: int = SMALLEST_GROUP,
) -> tuple[Outlier[K], ...]:
    """The parts that stand out, worst first.

    values:   one number per part of a homogeneous group (one rack; one rail or GPU index where those differ by design)
    bad:      which side is bad: "low" for bandwidth, "high" for temperature or latency
    relative: how far from the median, as a fraction of it
    absolute: and at least this far, in the values' unit (temperatures: 10 °C)
    smallest: with fewer finite values nothing is said
    """
    finite = {key: value for key, value in values.items() if math.isfinite(value)}
    if len(finite) < smallest:
        return ()
    middle = median(finite.values())
    scatter = spread(finite.values())
    sign = -1.0 if bad == "low" else 1.0
    found = []
    for key, value in finite.items():
        beyond = sign * (value - middle)
        off = beyond / abs(middle) if middle else math.inf if beyond > 0 else 0.0
        z = beyond / scatter if scatter else 0.0
        if z > MODIFIED_Z and off > relative and beyond >= absolute:
            found.append(Outlier(key, value, middle, sign * z, off))
    return tuple(sorted(found, key=lambda one: -abs(one.modified_z)))
