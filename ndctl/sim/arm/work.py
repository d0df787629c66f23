"""Long-running operations: begun by a request, moved on by the region's pulse, asked about by the client.

An operation takes a few pulses and then its handler is called; the handler may ask to be called again. Its record
outlives the process, so that a restart goes on with what was under way.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.store import Record, Store

log = logging.getLogger("ndctl.sim.arm")


class Again(Exception):
    """A handler is not done yet: call it at the next pulse."""


Handler = Callable[[Record], Any]


class Work:
    """Operations in the table "operations". One thread only."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._handlers: dict[str, Handler] = {}
        self._left: dict[str, int] = {
            key: int(record["steps"]) for key, record in store.scan("operations") if record["status"] == "InProgress"
        }

    def handle(self, kind: str, handler: Handler) -> None:
        """`handler(record)` gives the operation's result (any JSON, or None), raises ArmError or Again."""
        self._handlers[kind] = handler

    def begin(self, kind: str, target: str, *, steps: int = 1, **payload: Any) -> Record:
        record = {
            "id": str(uuid.uuid4()),
            "kind": kind,
            "target": target,
            "steps": steps,
            "status": "InProgress",
            "started": timestamp(),
            **payload,
        }
        self._store.put("operations", record["id"], record)
        self._left[record["id"]] = steps
        return record

    def get(self, operation_id: str) -> Record | None:
        return self._store.get("operations", operation_id)

    @property
    def idle(self) -> bool:
        return not self._left

    def end_now(self, operation: Record) -> Record:
        """Run the handler within the request. Raises the handler's ArmError; the ended record."""
        self._left.pop(operation["id"], None)
        result = self._handlers[operation["kind"]](operation)
        self._end(operation, "Succeeded", result=result)
        return operation

    def under_way(self, target: str) -> Record | None:
        """The operation on this target that has not ended, if any."""
        for operation_id in self._left:
            record = self._store.peek("operations").get(operation_id)
            if record is not None and record["target"].lower() == target.lower():
                return record
        return None

    def cancel(self, operation_id: str, error: dict[str, Any]) -> None:
        record = self._store.get("operations", operation_id)
        if record is not None and self._left.pop(operation_id, None) is not None:
            self._end(record, "Canceled", error=error)

    def pulse(self) -> None:
        """Move every operation one step on."""
        for operation_id in list(self._left):
            if operation_id not in self._left:
                continue  # ended by another operation of this pulse
            if self._left[operation_id] > 0:
                self._left[operation_id] -= 1
                continue
            record = self._store.get("operations", operation_id)
            if record is None:
                del self._left[operation_id]
                continue
            try:
                result = self._handlers[record["kind"]](record)
            except Again:
                continue
            except ArmError as error:
                self._left.pop(operation_id, None)
                self._end(record, "Failed", error=error.error)
            except Exception as error:
                # A fault of the simulator must end as a failed operation, or the client would wait for ever.
                log.exception("operation %s on %s", record["kind"], record["target"])
                self._left.pop(operation_id, None)
                self._end(record, "Failed", error={"code": "InternalServerError", "message": f"simulator: {error}"})
            else:
                self._left.pop(operation_id, None)
                self._end(record, "Succeeded", result=result)

    def _end(self, record: Record, status: str, **more: Any) -> None:
        kept = {key: value for key, value in record.items() if key != "answer"}  # now the result
        self._store.put("operations", record["id"], {**kept, "status": status, "ended": timestamp(), **more})


def timestamp(at: float | None = None) -> str:
    return datetime.fromtimestamp(time.time() if at is None else at, UTC).isoformat(timespec="microseconds")
