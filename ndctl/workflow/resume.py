"""Go on with a validation that was cut off: what was finished is taken from its record, the rest is asked.

A rack that had ended, and none of whose nodes has booted since, is made again from the record; its nodes are asked for
nothing but the boot id. Of any other rack the nodes that had answered whole keep their answers on the same condition;
everything else is done anew. What the dead run left running on nodes is ended first.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.checks.commands import IDENTITY
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.places import Node, Rack
from ndctl.parse import key_values
from ndctl.record.answers import question
from ndctl.record.store import RunLine, Store
from ndctl.workflow.bounds import NodeBound
from ndctl.workflow.rack_work import LiveWork, RackWork, end_leftovers
from ndctl.workflow.transport import Transport

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.workflow.gathered import Gathered
    from ndctl.workflow.recording import LiveSource
    from ndctl.workflow.validate import Request

_LOOKED_AT = 50  # newest runs among which the one to go on with is looked for
_WITHOUT = "run the same command without --resume"


@dataclass(frozen=True, slots=True)
class Resumed:
    """The run to go on with. plans: as `Store.plans` gives them."""

    run_id: str
    started: str
    plans: Mapping[str, Mapping[str, Any]]

    @property
    def plan(self) -> Mapping[str, Any]:
        return self.plans[""]

    def ended(self, cluster: str) -> dict[str, Mapping[str, Any]]:
        """Rack -> what was noted at its end, of the racks that had ended."""
        prefix = f"{cluster}/"
        return {key.removeprefix(prefix): body for key, body in self.plans.items() if key.startswith(prefix)}

    @property
    def times(self) -> int:
        """How often it was gone on with before."""
        return int(self.plan.get("resumed", 0))


def resumable(
    store: Store,
    inventories: Sequence[Loaded],
    settings: Mapping[str, Any],
    alive: Callable[[int], bool] | None = None,
    named: str = "",
) -> Resumed:
    """The newest run of these inventories, or the one that is named, when it was cut off.

    Raises NdctlError: exit 2 when there is none, when it is whole, was asked otherwise or of another inventory; 10 when
    it is still being made. The hint names another run that would do, where there is one.
    """
    wanted = tuple(one.inventory.cluster for one in inventories)
    found = store.line(named) if named else next(iter(_runs(store, wanted)), None)
    if found is None:
        raise _none(f"there is no run of {', '.join(wanted)}", _WITHOUT)
    if found.clusters != wanted:
        raise _cannot(found.id, f"it is of {', '.join(found.clusters)}", _WITHOUT)
    if not _cut_off(store, found):
        which = f"run {found.id}" if named else f"the last run of {', '.join(wanted)}, {found.id}"
        raise _none(f"{which} ({found.level} level) was not cut off, it is whole", _another(store, found, settings))
    plans = store.plans(found.id)
    if "" not in plans:
        raise _cannot(found.id, "it was cut off before anything was kept", _another(store, found, settings))
    _refuse_if_made_now(found, plans[""], alive or _is_alive)
    if differing := _asked_otherwise(plans[""], settings):
        told = ", ".join(f"{key} was {plans[''].get(key)!r}" for key in differing)
        otherwise = f"asked in that way it can be; or {_WITHOUT}"
        raise _cannot(found.id, f"it was asked otherwise: {told}", _another(store, found, settings, otherwise))
    for loaded in inventories:
        kept = plans.get(loaded.inventory.cluster, {}).get("inventory", {})
        if kept and kept.get("digest") != loaded.digest:
            raise _cannot(found.id, f"{loaded.path} has changed since", _WITHOUT)
    return Resumed(found.id, found.started, plans)


def _runs(store: Store, clusters: tuple[str, ...]) -> list[RunLine]:
    """Newest first."""
    return [line for line in store.runs(_LOOKED_AT) if line.clusters == clusters]


def _another(store: Store, this: RunLine, settings: Mapping[str, Any], otherwise: str = "") -> str:
    """How to go on with another run of these inventories that was cut off: one that was asked like this, else any."""
    others = [line for line in _runs(store, this.clusters) if line.id != this.id and _cut_off(store, line)]
    plans = {line.id: store.plans(line.id).get("", {}) for line in others}
    alike = [line for line in others if plans[line.id] and not _asked_otherwise(plans[line.id], settings)]
    if alike:
        return f"an earlier run that was asked like this was cut off: --resume-run {alike[0].id}"
    if others and not otherwise:
        one = others[0]
        return f"an earlier run was cut off: --level {one.level} --resume-run {one.id}; or {_WITHOUT}"
    return otherwise or _WITHOUT


def _asked_otherwise(plan: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    return [key for key, value in settings.items() if plan.get(key) != value]


def cut_off_since(began: str, request: Request, loaded: Loaded) -> bool:
    """Whether the newest run of an inventory was begun at `began` (RFC 3339, UTC) or later, was asked like `request`,
    and was cut off."""
    try:
        with Store(request.record, create=False) as store:
            return resumable(store, [loaded], request.settings).started >= began
    except NdctlError:
        return False


def _cut_off(store: Store, line: RunLine) -> bool:
    """It was killed, or stopped, or some of its racks came to no end: their workers were lost, say."""
    return line.finished is None or store.load(line.id).interrupted or _without_end(store.plans(line.id))


def _without_end(plans: Mapping[str, Mapping[str, Any]]) -> bool:
    clusters = [(name, body) for name, body in plans.items() if name and "/" not in name]
    return any(f"{name}/{rack['name']}" not in plans for name, body in clusters for rack in body.get("racks", ()))


def _none(message: str, hint: str) -> NdctlError:
    return NdctlError("resume.none", message, hint=hint, exit_code=ExitCode.USAGE)


def _cannot(run_id: str, why: str, hint: str) -> NdctlError:
    message = f"run {run_id} cannot be gone on with: {why}"
    return NdctlError("resume.refused", message, hint=hint, exit_code=ExitCode.USAGE)


def _refuse_if_made_now(line: RunLine, plan: Mapping[str, Any], alive: Callable[[int], bool]) -> None:
    process = plan.get("process")
    if line.finished is not None or not isinstance(process, Mapping) or process.get("host") != socket.gethostname():
        return
    pid = process.get("pid")
    if isinstance(pid, int) and pid != os.getpid() and alive(pid) and _began(pid) == process.get("began"):
        raise NdctlError(
            "resume.running",
            f"run {line.id} is being made right now, by process {pid}",
            hint="wait until it has ended",
            exit_code=ExitCode.LOCKED_OR_STALE,
        )


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _began(pid: int) -> str:
    """When a process began, in clock ticks since boot: a number that a later process of the same id doesn't have."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def this_process() -> dict[str, Any]:
    """What a run notes of the process that makes it."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "began": _began(os.getpid())}


class KeptAnswers:
    """What the run to go on with has of one cluster's nodes."""

    def __init__(self, store: Store, resumed: Resumed, cluster: str) -> None:
        self._answers = store.answers
        self._run_id = resumed.run_id
        self._cluster = cluster

    def whole(self, node: Node, commands: Sequence[Command]) -> NodeAnswer | None:
        """The first answer of a node, when it answered all of these very commands."""
        history = self._answers.of_node(self._run_id, self._cluster, node.name)
        outcome = history.askings.get(1)
        kept = {one.command: one for one in history.kept if one.asking == 1}
        if outcome is None or not outcome.ok:
            return None
        for command in commands:
            one = kept.get(command.id)
            if one is None or not one.answered or one.question != question(command):
                return None
        return NodeAnswer(node, outcome, {command.id: kept[command.id].result for command in commands})

    def forget(self, node: Node, after: int) -> bool:
        """Forget a node's askings after the first `after`; whether there was any."""
        return self._answers.forget(self._run_id, self._cluster, node.name, after)


def boot_id(answer: NodeAnswer | None) -> str:
    """ "" when the node did not tell."""
    result = answer.results.get(IDENTITY.id) if answer is not None else None
    return key_values.parse(result.stdout).get("boot_id", "") if result is not None else ""


class ResumedWork:
    """Works on the racks of a run that was cut off: from the record where that is enough, else by the live work."""

    def __init__(
        self,
        live: LiveWork,
        one: Gathered,
        request: Request,
        source: LiveSource,
        store: Store,
        resumed: Resumed,
        unrecorded: Transport,
        on_event: EventSink,
    ) -> None:
        self._live = live
        self._one = one
        self._request = request
        self._source = source
        self._store = store
        self._kept = KeptAnswers(store, resumed, one.cluster.name)
        self._ended = resumed.ended(one.cluster.name)
        self._resumed = resumed
        self._unrecorded = unrecorded
        self._on_event = on_event

    def __call__(self, rack: Rack) -> None:
        commands = self._live.commands
        kept = {node: answer for node in rack.nodes if (answer := self._kept.whole(node, commands)) is not None}
        now = self._unrecorded.ask(dict.fromkeys(kept, (IDENTITY,))) if kept else {}
        same = [node for node in kept if boot_id(kept[node]) and boot_id(kept[node]) == boot_id(now.get(node))]
        if rack.name in self._ended and len(same) == len(rack.nodes):
            self._say(rack, "had ended; no node has booted since")
            self._from_record(rack)
            return
        self._store.drop_plan(self._resumed.run_id, f"{self._one.cluster.name}/{rack.name}")
        touched = []
        for node in rack.nodes:
            if self._kept.forget(node, after=1 if node in same else 0):
                touched.append(node)
        if touched:
            # A test may have been cut off in its middle.
            end_leftovers(self._unrecorded, self._source.token, rack, touched)
        if same:
            self._say(rack, f"{len(same)} of {len(rack.nodes)} nodes had answered and have not booted since")
        self._live(rack, {node: kept[node] for node in same})

    def stop(self) -> None:
        self._live.stop()

    def _from_record(self, rack: Rack) -> None:
        from ndctl.workflow.replay import ReplaySource, ReplayTransport, kit_from

        kit = kit_from(self._store, self._resumed.run_id)
        note = self._ended[rack.name]
        part = {**self._resumed.plans[self._one.cluster.name], **note}
        source = ReplaySource(kit, part, self._one.cluster, interrupted=False)
        transport = ReplayTransport(kit.shelf, self._one.cluster.name, source.token, self._unrecorded.user, False)
        RackWork(self._one, self._request, source, transport, NodeBound(None), ignore_events)(rack)
        self._source.take_over(rack.name, note)

    def _say(self, rack: Rack, message: str) -> None:
        self._on_event(
            Event("collect", "running", cluster=self._one.cluster.name, rack=rack.name, step="resumed", message=message)
        )
