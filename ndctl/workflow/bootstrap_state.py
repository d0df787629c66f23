"""What a chain keeps between its tries: its id, when it began, and the stages that are done."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ndctl.model.bootstrapped import Stage, StageEnd
from ndctl.model.jsonable import dumps
from ndctl.workflow.state_dir import write_private

_FILE = "bootstrap.json"


class ChainState:
    """Of the chain that an earlier try of the same inventory left unfinished in `folder`, else of a new one."""

    def __init__(self, folder: Path, inventory_digest: str, now: datetime) -> None:
        self._path = folder / _FILE
        self._kept = _read(self._path, inventory_digest) or {
            "id": f"{now.astimezone(UTC):%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}",
            "began": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "inventory": inventory_digest,
            "stages": {},
        }
        self.id, self.began = str(self._kept["id"]), str(self._kept["began"])

    def done_before(self, stage: Stage) -> StageEnd | None:
        """What need not be done again: all up to the deployment, once that is done. Before it is, what a deployment
        needs may have changed since; and nodes are asked anew by every try."""
        stages = self._kept["stages"]
        if stage not in (Stage.PREFLIGHT, Stage.PLAN, Stage.DEPLOY) or Stage.DEPLOY.value not in stages:
            return None
        kept = stages.get(stage.value)
        return StageEnd(stage, "kept", kept["message"], facts=kept["facts"]) if kept else None

    def keep(self, end: StageEnd) -> None:
        self._kept["stages"][end.stage.value] = {"message": end.message, "facts": dict(end.facts)}
        write_private(self._path, dumps(self._kept) + "\n")

    def forget(self) -> None:
        """The chain is over, or what it did stands no more; the next try begins anew."""
        self._kept["stages"] = {}
        self._path.unlink(missing_ok=True)


def _read(path: Path, inventory_digest: str) -> dict[str, Any] | None:
    """None where there is none, it cannot be read, or the inventory has changed since."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(kept["id"], str) and isinstance(kept["began"], str) and isinstance(kept["stages"], dict)
        whole &= all({"message", "facts"} <= set(one) for one in kept["stages"].values())
        return kept if whole and kept["inventory"] == inventory_digest else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
