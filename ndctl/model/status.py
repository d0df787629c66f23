"""Statuses, verdicts, levels and actions: the few words every answer is made of."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Status(StrEnum):
    """What one check says of one subject."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"  # asked and got no usable answer: time-out, unparsed, unreachable
    SKIP = "skip"  # not asked, and the finding says why


class Verdict(StrEnum):
    """What a run says of one rack."""

    ACCEPTED = "accepted"
    DEGRADED = "degraded"  # warnings only
    REJECTED = "rejected"
    INCOMPLETE = "incomplete"  # nodes missing or unknown, or a required check skipped: never a pass


class Level(StrEnum):
    """How deep a validation goes; each level contains the ones before it."""

    QUICK = "quick"  # passive, seconds, safe beside running jobs
    STANDARD = "standard"  # and short active tests
    ACCEPTANCE = "acceptance"  # and burn-in

    def includes(self, other: Level) -> bool:
        order = list(Level)
        return order.index(other) <= order.index(self)


class Group(StrEnum):
    """The `--only` groups of checks."""

    GPU = "gpu"
    NVLINK = "nvlink"
    INFINIBAND = "infiniband"
    NCCL = "nccl"
    HOST = "host"


class Action(StrEnum):
    """What to do about a finding; the same words `ndctl repair --action` takes."""

    NONE = "none"
    WATCH = "watch"
    RESET_GPU = "reset-gpu"
    RESTART_IMEX = "restart-imex"
    REBOOT = "reboot"
    REIMAGE = "reimage"
    REDEPLOY = "redeploy"
    REPLACE_AND_REPORT = "replace-and-report"
    FIX_IMAGE = "fix-image"
    FIX_INVENTORY = "fix-inventory"
    INVESTIGATE = "investigate"


# A node is as bad as its worst finding; unknown ranks between warn and fail.
_SEVERITY = {Status.SKIP: 0, Status.PASS: 1, Status.WARN: 2, Status.UNKNOWN: 3, Status.FAIL: 4}


def worst_status(statuses: Iterable[Status], empty: Status = Status.UNKNOWN) -> Status:
    """The most severe of `statuses`; `empty` when there are none (no answer is never a pass)."""
    return max(statuses, key=_SEVERITY.__getitem__, default=empty)
