"""What became of a deployment: rack by rack, as a value, and the exit status it means."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ndctl.azure.calls import Calls
from ndctl.azure.faults import AzureFault
from ndctl.model.errors import ExitCode, worst_exit

DEPLOY_SCHEMA = "ndctl.deploy/1"


class Fate(StrEnum):
    """What became of the foundation or a rack."""

    UNCHANGED = "unchanged"
    DEPLOYED = "deployed"
    PARTIAL = "partial"  # some VMs run; kept and usable
    FAILED = "failed"
    REFUSED = "refused"  # by the plan already; nothing was sent
    NOT_STARTED = "not started"
    STILL_RUNNING = "still running"  # in Azure, no longer watched

    @property
    def as_planned(self) -> bool:
        return self in (Fate.UNCHANGED, Fate.DEPLOYED)


@dataclass(frozen=True, slots=True)
class RackEnd:
    """How one rack (or the foundation, `name` "foundation") ended."""

    name: str
    fate: Fate
    expected_vms: int = 0
    deployed_vms: int | None = 0  # None: not known, Azure is still at it or told no count
    seconds: float = 0.0
    fault: AzureFault | None = None
    failed_instances: tuple[str, ...] = ()
    detail: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "status": self.fate.value,
            "expected_vms": self.expected_vms,
            "deployed_vms": self.deployed_vms,
            "failed_instances": list(self.failed_instances),
            "seconds": round(self.seconds, 1),
            "fault": self.fault.as_dict() if self.fault else None,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class DeployResult:
    cluster: str
    inventory: str
    plan_digest: str
    foundation: RackEnd
    racks: tuple[RackEnd, ...]
    interrupted: bool = False
    run: str = ""
    calls: Calls = field(default_factory=Calls)
    lost_lock_to: str = ""  # who took the cluster's lock meanwhile; what was not sent by then was left

    @property
    def exit_code(self) -> ExitCode:
        if self.interrupted:
            return ExitCode.INTERRUPTED
        ends = (self.foundation, *self.racks)
        planned = sum(1 for one in self.racks if one.fate.as_planned)
        codes = [one.fault.exit_code for one in ends if one.fault and one.fault.exit_code]
        if self.lost_lock_to:
            codes.append(ExitCode.LOCKED_OR_STALE)
        if planned < len(self.racks) or not self.foundation.fate.as_planned:
            nothing_sent = all(one.fate in (Fate.REFUSED, Fate.NOT_STARTED) for one in self.racks)
            if nothing_sent and self.foundation.fate in (Fate.UNCHANGED, Fate.REFUSED):
                codes.append(ExitCode.PREFLIGHT)
            else:
                codes.append(ExitCode.DEPLOY_PARTIAL if planned else ExitCode.DEPLOY_FAILED)
        return worst_exit(codes)

    @property
    def fates(self) -> dict[str, list[str]]:
        """What became of which racks: {"deployed": ["rack01", ...], ...}"""
        found: dict[str, list[str]] = {}
        for one in self.racks:
            found.setdefault(one.fate.value, []).append(one.name)
        return found

    @property
    def summary(self) -> str:
        """`63 racks as planned, 1 partial`"""
        planned = sum(1 for one in self.racks if one.fate.as_planned)
        others = {fate: len(names) for fate, names in self.fates.items() if not Fate(fate).as_planned}
        racks = "1 rack" if planned == 1 else f"{planned} racks"
        return ", ".join([f"{racks} as planned", *(f"{count} {fate}" for fate, count in others.items())])

    def as_dict(self) -> dict[str, Any]:
        """The published form."""
        return {
            "schema": DEPLOY_SCHEMA,
            "cluster": self.cluster,
            "inventory": self.inventory,
            "plan_digest": self.plan_digest,
            "foundation": self.foundation.as_dict(),
            "racks": [one.as_dict() for one in self.racks],
            "interrupted": self.interrupted,
            "run": self.run,
            "calls": self.calls.as_dict(),
            "lost_lock_to": self.lost_lock_to,
            "exit_code": int(self.exit_code),
        }
