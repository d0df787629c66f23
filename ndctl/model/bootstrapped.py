"""What became of an unattended chain: step by step for one cluster, and of several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ndctl.model.errors import ExitCode, worst_exit

BOOTSTRAP_SCHEMA = "ndctl.bootstrap/1"


class Stage(StrEnum):
    """The chain, in its order."""

    PREFLIGHT = "preflight"
    PLAN = "plan"
    DEPLOY = "deploy"
    WAIT = "wait"
    VALIDATE = "validate"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class StageEnd:
    """How one stage ended.

    status:  "done" | "failed" | "kept" (done by an earlier try of the same chain) | "not reached"
    message: one sentence with the figures
    facts:   what later stages and machines need: ids, digests, counts
    """

    stage: Stage
    status: str
    message: str = ""
    exit_code: int = 0
    next_step: str = ""
    error: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """One cluster. id: of the chain, the same over all its tries; record: the acceptance record's file, "" if none."""

    cluster: str
    inventory: str
    id: str
    stages: tuple[StageEnd, ...]
    verdicts: Mapping[str, int] = field(default_factory=dict)
    record: str = ""
    interrupted: bool = False

    @property
    def exit_code(self) -> ExitCode:
        if self.interrupted:
            return ExitCode.INTERRUPTED
        return worst_exit(end.exit_code for end in self.stages)

    @property
    def last(self) -> StageEnd:
        """The stage that decided: the first that failed, else the last that was reached."""
        reached = [end for end in self.stages if end.status != "not reached"]
        return next((end for end in reached if end.exit_code), reached[-1])

    def as_dict(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "inventory": self.inventory,
            "id": self.id,
            "stages": [
                {
                    "stage": end.stage.value,
                    "status": end.status,
                    "message": end.message,
                    "exit_code": end.exit_code,
                    "next_step": end.next_step,
                    "error": dict(end.error),
                    "facts": dict(end.facts),
                }
                for end in self.stages
            ],
            "verdicts": dict(self.verdicts),
            "record": self.record,
            "interrupted": self.interrupted,
            "exit_code": int(self.exit_code),
        }


def bootstrapped_dict(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The published form of clusters side by side, each as `Bootstrapped.as_dict` gives it."""
    return {
        "schema": BOOTSTRAP_SCHEMA,
        "clusters": [dict(one) for one in found],
        "exit_code": int(worst_exit(int(one["exit_code"]) for one in found)),
    }
