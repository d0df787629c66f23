"""What is being repaired, kept so that a repair that was cut off is gone on with, and that nodes are not forgotten.

One entry a node, in the cluster's state folder; an entry is closed when the node was validated after its repair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.status import Status
from ndctl.workflow.state_dir import write_private

if TYPE_CHECKING:
    from ndctl.model.findings import Run

_SCHEMA = "ndctl.repairs/1"
_FILE = "repairs.json"


class RepairAction(StrEnum):
    RESET_GPU = "reset-gpu"
    RESTART_IMEX = "restart-imex"
    REBOOT = "reboot"
    REIMAGE = "reimage"
    REDEPLOY = "redeploy"
    REPLACE = "replace"

    @property
    def on_the_node(self) -> bool:
        """Done over SSH; the others by ARM."""
        return self in (RepairAction.RESET_GPU, RepairAction.RESTART_IMEX)

    @property
    def takes_the_disk(self) -> bool:
        """What is on the VM's disk is gone afterwards: an ephemeral disk also where the VM moves to another host."""
        return self in (RepairAction.REIMAGE, RepairAction.REDEPLOY, RepairAction.REPLACE)


class Phase(StrEnum):
    """How far a repair is, in order. A repair that is run again goes on behind what was reached."""

    BEGUN = "begun"
    EVIDENCE = "evidence"  # saved, or its gap was told; nothing was changed yet
    ACTING = "acting"  # sent; whether it was done is not known
    DELETED = "deleted"  # replace only: the old VM is gone, the new one not asked for
    ACTED = "acted"  # done by Azure or the node; not yet seen to be back
    BACK = "back"  # answers by SSH
    FAILED = "failed"  # refused, nothing is under way; an end
    NOT_BACK = "not-back"  # done, and the node did not answer in time; an end: another action may be tried

    @property
    def nothing_in_azure(self) -> bool:
        """Whether another action may take its place: Azure or the node is not in the middle of it."""
        return self not in (Phase.ACTING, Phase.DELETED)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a node is: what Azure asks for in a report, and what changes with a repair. "" where not known."""

    instance_id: str = ""
    vm_id: str = ""
    physical_host: str = ""
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One node's repair.

    began, ended: RFC 3339, UTC; by: user@host; evidence: folder; gap: what of the evidence could not be taken
    capacity, others: of a replacement: what the scale set is to have, and the instances that stood beside the old one
    operation: where Azure tells of the operation that was sent, "" where none is known
    error: why it ended without the node being back
    validated: whether a run after it found the node without a fault
    """

    node: str
    action: RepairAction
    phase: Phase
    began: str
    by: str
    before: Identity = field(default_factory=Identity)
    after: Identity = field(default_factory=Identity)
    evidence: str = ""
    run: str = ""
    gap: str = ""
    capacity: int = 0
    others: tuple[str, ...] = ()
    operation: str = ""
    error: str = ""
    ended: str = ""
    validated: bool = False

    @property
    def under_way(self) -> bool:
        return not self.ended

    def at(self, phase: Phase, **changes: Any) -> Entry:
        return replace(self, phase=phase, **changes)


class Repairs:
    """The entries of one cluster, written at every change."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._entries = _read(self._path)

    def get(self, node: str) -> Entry | None:
        return self._entries.get(node)

    def put(self, entry: Entry) -> Entry:
        self._entries[entry.node] = entry
        told = {name: {**asdict(one), "others": list(one.others)} for name, one in sorted(self._entries.items())}
        write_private(self._path, json.dumps({"schema": _SCHEMA, "nodes": told}, indent=1) + "\n")
        return entry

    def all(self) -> tuple[Entry, ...]:
        return tuple(self._entries.values())

    def open(self, seen_well: Callable[[str, str], bool]) -> dict[str, str]:
        """Node -> why it counts as not back: it is under repair, or was repaired and nobody found it well since.

        seen_well(node, since): whether a recorded run that began after `since` found the node without a fault.
        """
        found = {}
        for one in self._entries.values():
            if one.phase in (Phase.BEGUN, Phase.EVIDENCE):
                continue  # cut off before anything was changed
            if one.under_way:
                found[one.node] = f"under {one.action.value} by {one.by} since {one.began}"
            elif one.phase is Phase.FAILED or one.validated or seen_well(one.node, one.ended):
                continue  # what was refused changed nothing
            else:
                came = "not found well since" if one.phase is Phase.BACK else "and it did not come back"
                found[one.node] = f"{one.action.value} at {one.ended}, {came}"
        return found


def seen_well(runs: Mapping[str, Run]) -> Callable[[str, str], bool]:
    """`Repairs.open`'s question, answered from recorded runs. runs: id -> run, of one cluster."""

    def answer(node: str, since: str) -> bool:
        return any(
            one.status in (Status.PASS, Status.WARN)
            for run in runs.values()
            if run.started > since
            for rack in run.racks
            for one in rack.nodes
            if one.name == node
        )

    return answer


def _read(path: Path) -> dict[str, Entry]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return {name: _entry(one) for name, one in told["nodes"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NdctlError(
            "repair.state",
            f"{path} cannot be read ({type(error).__name__}: {error}), and it says what is under repair",
            hint=f"look at it, then restore it or move it away: mv {path} {path}.old",
            exit_code=ExitCode.USAGE,
        ) from error


def _entry(told: Mapping[str, Any]) -> Entry:
    plain = {key: value for key, value in told.items() if key not in ("before", "after", "others")}
    return Entry(
        **{**plain, "action": RepairAction(told["action"]), "phase": Phase(told["phase"])},
        before=Identity(**told["before"]),
        after=Identity(**told["after"]),
        others=tuple(told["others"]),
    )
