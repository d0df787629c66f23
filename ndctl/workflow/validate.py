"""Validate racks: find the nodes, ask them, run the active tests, judge, keep.

One inventory after another is discovered, then all nodes of it are asked side by side; active tests run rack by
rack, several racks at once. Whatever happens, what was gathered is judged and kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.checks.base import Check
from ndctl.checks.registry import catalogue
from ndctl.checks.verdict import PRESENT, exit_code
from ndctl.inventory.loader import Loaded, load_many
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.errors import ManyErrors, NdctlError
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.findings import Finding, RackResult, Run
from ndctl.model.places import Cluster, Node, Rack, rack_name
from ndctl.model.status import Group, Level, Status, Verdict
from ndctl.profiles.schema import Profile
from ndctl.record.store import Store
from ndctl.workflow.gathered import Gathered, disabled_checks, judge, judged, measurements, merged, settle
from ndctl.workflow.history import hold_against_past
from ndctl.workflow.known_checks import refuse_wrongly_disabled, switched_off
from ndctl.workflow.node_groups import LastRun
from ndctl.workflow.recording import Recorder, Source
from ndctl.workflow.select import EVERYTHING, Selection, nothing_selected, select
from ndctl.workflow.transport import Transport, open_transport

if TYPE_CHECKING:
    from ndctl.jobs.active.base import Outcome

RACKS_AT_ONCE = 16  # racks whose active tests run side by side


@dataclass(frozen=True, slots=True)
class Request:
    """What to validate.

    selection:            racks and nodes
    max_nodes_under_test: how many nodes of the whole run may be under active test at one time; None: no limit
    budget_s:             seconds for each rack's active tests, which are then ordered by what they found before
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

    @property
    def settings(self) -> Mapping[str, Any]:
        """What of it decides how nodes are asked and judged, as JSON; kept so that the run can be made again."""
        return {
            "level": self.level.value,
            "groups": sorted(group.value for group in self.groups),
            "force": self.force,
            "max_nodes_under_test": self.max_nodes_under_test,
            "budget_s": self.budget_s,
        }


def validate_inventories(
    request: Request,
    *,
    on_event: EventSink = ignore_events,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    open_transport: Callable[[Loaded, Cluster, int], Transport] = open_transport,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Run:
    """Validate and record. Raises NdctlError for what makes an answer impossible (inventory, sign-in, record);
    nodes that do not answer are part of the answer. The first Ctrl-C ends the gathering and judges the rest as
    incomplete. `clock` and `sleep` are of the wait for racks that still start."""
    started = now()
    inventories = load_many(request.paths)
    refuse_wrongly_disabled(inventories)
    for loaded in inventories:
        for entry in switched_off(loaded, started.astimezone(UTC).date()):
            if not entry.in_force:
                cluster, message = loaded.inventory.cluster, f"warning: {entry.where}: {entry.warning}"
                on_event(Event("note", "done", cluster=cluster, message=message))
    store = Store(request.record)
    wanted = started.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    run_id = store.begin_new(wanted, stamp(started), request.level.value, [o.inventory.cluster for o in inventories])
    today = started.astimezone(UTC).date()
    gathered: list[Gathered] = []
    unasked: dict[str, NdctlError] = {}
    interrupted = False
    try:
        recorder = Recorder(store, run_id, stamp(started), request.settings, today, clock=clock, sleep=sleep)
        sources = {one.inventory.cluster: recorder.cluster(one, open_transport, request.fanout) for one in inventories}
        for loaded in inventories:
            source = sources[loaded.inventory.cluster]
            try:
                one = discover(loaded, request, on_event, today, store.last_run)
                gathered.append(one)
                source.found(one.cluster)
                try:
                    gather(one, request, source, on_event)
                finally:
                    source.save()
            except NdctlError as error:
                source.failed(error)
                # One region that cannot be asked must not cost the answer of the others.
                if len(inventories) == 1:
                    raise
                on_event(Event("note", "failed", cluster=loaded.inventory.cluster, message=error.message))
                unasked[loaded.inventory.cluster] = error
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
            started=stamp(started),
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


def commands_of(checks: list[Check]) -> list[Command]:
    """Each command once, in the order it runs."""
    unique: dict[str, Command] = {}
    for check in checks:
        for command in check.commands:
            unique.setdefault(command.id, command)
    return sorted(unique.values(), key=lambda command: (command.order, command.id))


def _told_while_starting(checks: list[Check]) -> list[Command]:
    """What tells of fabric and IMEX. Counters keep their first reading."""
    return [one for one in commands_of([c for c in checks if c.group is Group.NVLINK]) if one.order >= 0]


def gather(one: Gathered, request: Request, source: Source, on_event: EventSink) -> None:
    """Ask all nodes; at standard level run the active tests and ask again for what they may have changed. Then hold
    what was measured against the rack's own past."""
    with closing(source.transport()) as transport:
        _gather(one, request, source, on_event, transport)
    hold_against_past(one, source.earlier)


def _gather(one: Gathered, request: Request, source: Source, on_event: EventSink, transport: Transport) -> None:
    commands = commands_of(one.checks)
    begun = time.monotonic()

    def keep(answer: NodeAnswer) -> None:
        one.answers[answer.node] = merged(one.answers.get(answer.node), answer)
        if not answer.outcome.ok:
            on_event(
                Event(
                    "collect",
                    "failed",
                    cluster=one.cluster.name,
                    rack=answer.node.rack,
                    node=answer.node.name,
                    message=f"{answer.outcome.kind.value}: {answer.outcome.detail}",
                )
            )

    transport.collect(dict.fromkeys(one.cluster.nodes, commands), keep)
    starting = _told_while_starting(one.checks)

    def ask_again(nodes: list[Node]) -> None:
        answered = [node for node in nodes if node in one.answers and one.answers[node].outcome.ok]
        transport.collect(dict.fromkeys(answered, starting), keep)

    with source.timing("settling"):
        settle(one, ask_again, on_event, clock=source.clock, sleep=source.sleep)
    one.client = source.client_trouble()
    for rack in one.cluster.racks:
        one.seconds[rack.name] = time.monotonic() - begun
    if request.level is Level.QUICK:
        return
    from ndctl.workflow.across import AcrossTests, RackSoFar
    from ndctl.workflow.active import ActiveTests
    from ndctl.workflow.bounds import NodeBound

    shared: dict[str, Any] = {
        "level": request.level,
        "groups": request.groups,
        "force": request.force,
        "holder": source.holder,
        "disabled": frozenset(disabled_checks(one.loaded, one.today)),
        "on_event": on_event,
        "bound": NodeBound(request.max_nodes_under_test),
        "budget_s": request.budget_s,
    }
    past = source.found_per_check() if request.budget_s is not None else None
    tests = ActiveTests(transport, one.loaded, past=past, token=source.token, clock=source.clock, **shared)
    across = AcrossTests(transport, one.loaded, token=f"{source.token}x", **shared)
    tests_begun = source.clock()
    again = [command for command in commands if command.order > 0 or command.id == "kernel-log"]

    def test(rack: Rack) -> None:
        answers = {node: one.answers[node] for node in rack.nodes if node in one.answers}
        suspects = {
            f.node for f in judged(one, rack).findings if f.status.value == "fail" and f.node and not f.caused_by
        }
        with source.timing(rack.name):
            result = tests.run(rack, answers, frozenset(suspects))
        one.active[rack.name] = result
        ended([rack], result)

    def ended(racks: list[Rack], outcome: Outcome) -> None:
        """Keep what a test gave, and ask again for what it may have changed."""
        for node, command, text in outcome.texts:
            source.keep_text(node, command, text)
        if any(one.active[rack.name].ran for rack in racks):
            answered = [n for rack in racks for n in rack.nodes if n in one.answers and one.answers[n].outcome.ok]
            transport.collect(dict.fromkeys(answered, again), keep)
        for rack in racks:
            one.seconds[rack.name] = time.monotonic() - begun

    with ThreadPoolExecutor(max_workers=RACKS_AT_ONCE) as pool:
        racks = [pool.submit(test, rack) for rack in one.cluster.racks]
        try:
            for done in racks:
                done.result()
        except BaseException:
            # Keys, processes and leases on the nodes are cleared by the racks' own threads, which the pool waits for.
            tests.stop()
            raise
    across.run(
        [
            RackSoFar(rack, {n: one.answers[n] for n in rack.nodes if n in one.answers}, one.active[rack.name])
            for rack in one.cluster.racks
        ],
        ended,
        spent_s=source.clock() - tests_begun,
    )
