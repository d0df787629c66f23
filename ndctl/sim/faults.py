"""The catalogue of faults the region can be given, as data, and the book that keeps the planted ones.

Each kind says what its parameters mean and what an expert would find, so that a test can hold a validation's
findings against what was planted. `plane` says who acts on it: "node" faults change what the nodes' tools say,
"arm" faults change what the control plane answers.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.sim.fault_kinds import CATALOGUE, Kind

__all__ = ["CATALOGUE", "Fault", "FaultBook", "Kind"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One planted fault. `since` is wall-clock seconds."""

    id: int
    kind: str
    where: Mapping[str, Any]
    since: float

    def __getitem__(self, key: str) -> Any:
        return self.where[key]

    @property
    def blames(self) -> str:
        """The part an expert would name."""
        return CATALOGUE[self.kind].blames.format(**self.where)


class FaultBook:
    """The planted faults, kept in one JSON file; another process's changes are seen at the next `refresh`."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.RLock()
        self._faults: Sequence[Fault] = ()
        self._stamp: tuple[int, int] | None = None
        self.version = 0
        self.refresh()

    def refresh(self) -> bool:
        """Read the file again if it changed; True if it did."""
        with self._lock:
            try:
                status = self._path.stat()
            except FileNotFoundError:
                changed = bool(self._faults)
                self._faults, self._stamp = (), None
                self.version += changed
                return changed
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            self._faults = tuple(Fault(**entry) for entry in json.loads(self._path.read_text()))
            self.version += 1
            return True

    def add(self, kind: str, **where: Any) -> Fault:
        """Plant a fault; NdctlError if the kind or a parameter is unknown or missing."""
        checked = _checked(kind, where)
        with self._lock:
            self.refresh()
            number = max((fault.id for fault in self._faults), default=0) + 1
            fault = Fault(number, kind, checked, self._clock())
            self._save([*self._faults, fault])
            return fault

    def clear(self, kind: str | None = None, id: int | None = None) -> int:
        """Heal all faults, or those of one kind, or one by id; how many were healed."""
        with self._lock:
            self.refresh()
            kept = [
                fault
                for fault in self._faults
                if (kind is not None and fault.kind != kind) or (id is not None and fault.id != id)
            ]
            healed = len(self._faults) - len(kept)
            if healed:
                self._save(kept)
            return healed

    def of(self, *kinds: str) -> Iterable[Fault]:
        """Planted faults of these kinds, as last read; cheap."""
        return [fault for fault in self._faults if fault.kind in kinds]

    def list(self) -> list[Fault]:
        with self._lock:
            self.refresh()
            return list(self._faults)

    def _save(self, faults: Sequence[Fault]) -> None:
        entries = [{"id": f.id, "kind": f.kind, "where": dict(f.where), "since": f.since} for f in faults]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(entries, indent=1))
        temporary.replace(self._path)
        status = self._path.stat()
        self._stamp = (status.st_mtime_ns, status.st_ino)
        self._faults = tuple(faults)
        self.version += 1


def _checked(kind: str, where: Mapping[str, Any]) -> dict[str, Any]:
    known = CATALOGUE.get(kind)
    if known is None:
        raise NdctlError(
            "sim.unknown-fault",
            f"no fault kind '{kind}'",
            hint=f"kinds: {', '.join(CATALOGUE)}",
            exit_code=ExitCode.USAGE,
        )
    given = {key: value for key, value in where.items() if value is not None}
    unknown = [key for key in given if key not in known.parameters and key != "cluster"]
    missing = [key for key in known.required if key not in given]
    if unknown or missing:
        wrong = [f"unknown parameter '{key}'" for key in unknown] + [f"missing parameter '{key}'" for key in missing]
        raise NdctlError(
            "sim.fault-parameters",
            f"{kind}: {', '.join(wrong)}",
            hint="parameters: " + "; ".join(f"{key}: {text}" for key, text in known.parameters.items()),
            exit_code=ExitCode.USAGE,
        )
    result = {**known.defaults, **given}
    for key in ("gpu", "link", "rack", "count", "clique", "limit", "retry_after", "status", "times"):
        if key in result:
            result[key] = int(result[key])
    for key in ("factor", "per_second", "share"):
        if key in result:
            result[key] = float(result[key])
    return result
