"""The acceptance record: one file that says what was asked, what stands, and rack by rack how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl import __version__
from ndctl.model.bootstrapped import StageEnd
from ndctl.model.jsonable import dumps
from ndctl.workflow.state_dir import write_private

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.model.findings import Run

ACCEPTANCE_SCHEMA = "ndctl.acceptance/1"


def write_acceptance(
    folder: Path, loaded: Loaded, chain: str, run: Run, stages: Sequence[StageEnd], now: datetime
) -> Path:
    """Write it beside the cluster's state; a run has one, however often it is written."""
    path = folder / f"acceptance-{run.id}.json"
    write_private(path, dumps(acceptance(loaded, chain, run, stages, now)) + "\n")
    return path


def acceptance(loaded: Loaded, chain: str, run: Run, stages: Sequence[StageEnd], now: datetime) -> dict[str, Any]:
    """chain: id of the bootstrap; stages: those before the record."""
    return {
        "schema": ACCEPTANCE_SCHEMA,
        "id": chain,
        "cluster": loaded.inventory.cluster,
        "time": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ndctl": __version__,
        "inventory": {"path": str(loaded.path), "digest": loaded.digest},
        "profile": loaded.profile.name,
        "stages": {
            end.stage.value: {
                "status": end.status,
                "message": end.message,
                "exit_code": int(end.exit_code),
                "facts": dict(end.facts),
            }
            for end in stages
        },
        "run": run.id,
        "level": run.level,
        "racks": [
            {
                "name": rack.name,
                "verdict": rack.verdict.value,
                "usable_nodes": len(rack.usable_nodes),
                "expected_nodes": rack.expected_nodes,
            }
            for rack in run.racks
        ],
        "exit_code": int(run.exit_code),
    }
