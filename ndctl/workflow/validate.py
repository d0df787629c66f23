"""Validate racks: find the nodes, ask them, run the active tests, judge, keep.

One inventory after another is discovered, then all nodes of it are asked side by side; active tests run rack by
rack, several racks at once. Whatever happens, what was gathered is judged and kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ndctl.checks.base import Check
from ndctl.checks.registry import catalogue
from ndctl.checks.verdict import PRESENT, exit_code
from ndctl.inventory.loader import Loaded, load_many
from ndctl.model.errors import ManyErrors, NdctlError
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.findings import Finding, RackResult, Run
from ndctl.model.places import Cluster, rack_name
from ndctl.model.status import Group, Level, Status, Verdict
from ndctl.profiles.schema import Profile
from ndctl.record.store import Store
from ndctl.workflow.engines import Engine, LocalEngine
from ndctl.workflow.executors import LeaveNow
from ndctl.workflow.gather import gather
from ndctl.workflow.gathered import Gathered, judge, measurements
from ndctl.workflow.known_checks import refuse_wrongly_disabled, switched_off
from ndctl.workflow.node_groups import LastRun
from ndctl.workflow.recording import Recorder
from ndctl.workflow.resume import resumable
from ndctl.workflow.select import EVERYTHING, Selection, nothing_selected, select
from ndctl.workflow.transport import Transport, open_relay, open_transport

_HERE = LocalEngine()


@dataclass(frozen=True, slots=True)
class Request:
    """What to validate.

    selection:            racks and nodes
    max_nodes_under_test: how many nodes of the whole run may be under active test at one time; None: no limit
    budget_s:             seconds for each rack's active tests, which are then ordered by what they found before
    resume:               go on with the newest run of these inventories, which was cut off
    resume_run:           with the run of this id instead; "" for none
    relay:                collect through one node of each rack
    """

    paths: tuple[Path, ...]
    selection: Selection = EVERYTHING
    groups: frozenset[Group] = frozenset(Group)
    level: Level = Level.STANDARD
    force: bool = False
    fanout: int = 64
    record: Path | None = None
    relearn_host_keys: bool = False
    max_nodes_under_test: int | None = None
    budget_s: float | None = None
    resume: bool = False
    resume_run: str = ""
    relay: bool = False

    @property
    def settings(self) -> Mapping[str, Any]:
        """What of it decides how nodes are asked and judged, as JSON; kept so that the run can be made again."""
        return {
            "level": self.level.value,
            "groups": sorted(group.value for group in self.groups),
            "force": self.force,
            "max_nodes_under_test": self.max_nodes_under_test,
            "budget_s": self.budget_s,
            "selection": self.selection.as_json,
            **({"relay": "rack"} if self.relay else {}),
        }


def validate_inventories(
    request: Request,
    *,
    on_event: EventSink = ignore_events,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    open_transport: Callable[[Loaded, Cluster, int], Transport] = open_transport,
    engine: Engine = _HERE,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Run:
    """Validate and record. Raises NdctlError for what makes an answer impossible (inventory, sign-in, record);
    nodes that do not answer are part of the answer. The first Ctrl-C ends the gathering and judges the rest as
    incomplete. `engine` says where racks are worked on; `clock` and `sleep` are of the wait for racks that still
    start."""
    started = now()
    inventories = load_many(request.paths)
    refuse_wrongly_disabled(inventories)
    if request.relay:
        open_transport = partial(open_relay, single=request.level is Level.QUICK, on_event=on_event)
    for loaded in inventories:
        for entry in switched_off(loaded, started.astimezone(UTC).date()):
            if not entry.in_force:
                cluster, message = loaded.inventory.cluster, f"warning: {entry.where}: {entry.warning}"
                on_event(Event("note", "done", cluster=cluster, message=message))
    store = Store(request.record)
    try:
        resumed = None
        if request.resume or request.resume_run:
            resumed = resumable(store, inventories, request.settings, named=request.resume_run)
        if resumed is not None:
            run_id, began = resumed.run_id, resumed.started
            on_event(Event("note", "started", message=f"going on with run {run_id}, begun {began}"))
        else:
            wanted, began = started.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S"), stamp(started)
            run_id = store.begin_new(wanted, began, request.level.value, [one.inventory.cluster for one in inventories])
    except BaseException:
        store.close()
        raise
    today = started.astimezone(UTC).date()
    gathered: list[Gathered] = []
    unasked: dict[str, NdctlError] = {}
    interrupted = False
    try:
        recorder = Recorder(store, run_id, began, request.settings, today, clock=clock, sleep=sleep, resumed=resumed)
        sources = {one.inventory.cluster: recorder.cluster(one, open_transport, request.fanout) for one in inventories}
        for loaded in inventories:
            source = sources[loaded.inventory.cluster]
            try:
                one = discover(loaded, request, on_event, today, store.last_run)
                gathered.append(one)
                source.found(one.cluster)
                try:
                    gather(one, request, source, on_event, engine)
                finally:
                    source.save()
            except NdctlError as error:
                source.failed(error)
                # One region that cannot be asked must not cost the answer of the others.
                if len(inventories) == 1:
                    raise
                on_event(Event("note", "failed", cluster=loaded.inventory.cluster, message=error.message))
                unasked[loaded.inventory.cluster] = error
            except LeaveNow:
                raise
            except KeyboardInterrupt:
                on_event(Event("note", "failed", message="interrupted: judging what was gathered so far"))
                interrupted = True
                break
        if len(unasked) == len(inventories):
            raise ManyErrors(list(unasked.values()))
        if not interrupted and not unasked and not any(one.cluster.racks for one in gathered):
            raise nothing_selected(request.selection)
        run = answer(
            inventories,
            gathered,
            unasked,
            run_id=run_id,
            started=began,
            finished=stamp(now()),
            level=request.level,
            interrupted=interrupted,
        )
        try:
            store.finish(run, measurements(gathered))
        except NdctlError as error:
            # The answer is worth more than its record: it is shown, and the record's trouble is told beside it.
            on_event(Event("note", "failed", message=f"this run is not recorded: {error.message}"))
        return run
    finally:
        store.close()


def answer(
    inventories: Sequence[Loaded],
    gathered: Sequence[Gathered],
    unasked: Mapping[str, NdctlError],
    *,
    run_id: str,
    started: str,
    finished: str,
    level: Level,
    interrupted: bool,
) -> Run:
    """The judged run. `unasked`: cluster -> why it could not be asked."""
    racks = [result for one in gathered if one.cluster.name not in unasked for result in judge(one)]
    racks += [
        rack for loaded in inventories if (e := unasked.get(loaded.inventory.cluster)) for rack in unseen(loaded, e)
    ]
    return Run(
        id=run_id,
        started=started,
        finished=finished,
        level=level.value,
        inventories=tuple(describe(loaded) for loaded in inventories),
        racks=tuple(racks),
        exit_code=130 if interrupted else int(exit_code(racks)),
        interrupted=interrupted,
    )


def unseen(loaded: Loaded, error: NdctlError) -> list[RackResult]:
    """The racks of an inventory that could not be asked at all: incomplete, each with the reason."""
    return [
        RackResult(
            name=rack_name(number),
            cluster=loaded.inventory.cluster,
            verdict=Verdict.INCOMPLETE,
            expected_nodes=loaded.vms_per_rack,
            findings=(
                Finding(
                    check=PRESENT,
                    status=Status.UNKNOWN,
                    subject=rack_name(number),
                    message=f"not asked: {error.message}",
                    cause=error.hint,
                ),
            ),
        )
        for number in range(1, (loaded.inventory.racks or 1) + 1)
    ]


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def describe(loaded: Loaded) -> Mapping[str, Any]:
    return {
        "path": str(loaded.path),
        "cluster": loaded.inventory.cluster,
        "digest": loaded.digest,
        "profile": loaded.profile.name,
    }


def discover(loaded: Loaded, request: Request, on_event: EventSink, today: date, last: LastRun) -> Gathered:
    """The nodes that are meant, with their host keys learned, and the checks to ask of them. `last` gives the runs
    that @failed and @incomplete are read from."""
    from ndctl.workflow.jump_hosts import learn_jump_host
    from ndctl.workflow.nodes import discover as discover_nodes
    from ndctl.workflow.nodes import learn_host_keys

    selected = select(discover_nodes(loaded), request.selection, last=last)
    cluster = selected.cluster
    for message in (*selected.notes, selected.line) if request.selection != EVERYTHING else ():
        on_event(Event("collect", "started", cluster=cluster.name, message=message))
    problems = learn_host_keys(loaded, cluster, relearn=request.relearn_host_keys)
    for node, problem in sorted(problems.items()):
        on_event(Event("note", "failed", cluster=cluster.name, node=node, message=f"host key not learned: {problem}"))
    learn_jump_host(loaded, relearn=request.relearn_host_keys)
    checks = chosen(loaded.profile, request)
    on_event(
        Event(
            "collect",
            "started",
            cluster=cluster.name,
            message=f"nodes: {len(cluster.nodes)}   racks: {len(cluster.racks)}   checks: {len(checks)}",
        )
    )
    return Gathered(loaded, cluster, checks, today)


def chosen(profile: Profile, request: Request) -> list[Check]:
    """The passive checks to ask."""
    return [
        check
        for check in catalogue()
        if check.group in request.groups and request.level.includes(check.level) and check.applies(profile)
    ]
