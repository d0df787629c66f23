"""A run made again from what was kept of it: the same workflow over a transport that answers from the record.

Nothing is connected to and nothing is written. Judged is with today's checks and today's profile, so that the answer
may differ from the recorded one where those changed; `differences` then says in what.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Protocol

from ndctl.inventory.loader import Loaded
from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import EventSink, ignore_events
from ndctl.model.findings import Run
from ndctl.model.places import Cluster, Node
from ndctl.model.status import Group, Level
from ndctl.record.answers import Answers, Kept, NodeHistory, question
from ndctl.record.past import Measured
from ndctl.record.store import Store
from ndctl.workflow.engines import InOrderEngine
from ndctl.workflow.gather import gather
from ndctl.workflow.gathered import Gathered
from ndctl.workflow.rack_work import LiveWork
from ndctl.workflow.recording import HOST_KEYS
from ndctl.workflow.remembered import NotRemembered, remembered_cluster, remembered_inventory
from ndctl.workflow.source import Past
from ndctl.workflow.validate import Request, answer, chosen

_NOT_ASKED = Outcome(OutcomeKind.INTERRUPTED, "this was not asked in the run that is made again")
_LATER_S = 3600.0  # a clock that is read more often than it was has passed every deadline


class Shelf(Protocol):
    """Where the kept answers are: a record, or a bundle."""

    def of_node(self, cluster: str, node: str) -> NodeHistory:
        """Everything a node was asked, without the texts."""
        ...

    def one(self, cluster: str, node: str, command: str, turn: int) -> CommandResult | None: ...


@dataclass(frozen=True, slots=True)
class Kit:
    """A run as it was kept. plan: the run's own part; clusters: name -> its part, in order; recorded: as it was judged,
    None for a run that never was."""

    run_id: str
    started: str
    plan: Mapping[str, Any]
    clusters: Mapping[str, Mapping[str, Any]]
    shelf: Shelf
    recorded: Run | None = None


@dataclass(frozen=True, slots=True)
class RecordShelf:
    answers: Answers
    run_id: str

    def of_node(self, cluster: str, node: str) -> NodeHistory:
        return self.answers.of_node(self.run_id, cluster, node, texts=False)

    def one(self, cluster: str, node: str, command: str, turn: int) -> CommandResult | None:
        return self.answers.one(self.run_id, cluster, node, command, turn)


def kit_from(store: Store, run: str) -> Kit:
    """The kit of a recorded run. Raises NdctlError (exit 2): there is none, or it was kept without what this needs."""
    run_id = store.resolve(run)
    line = store.line(run_id)
    plans = store.plans(run_id)
    if "" not in plans:
        raise NdctlError(
            "replay.too-old",
            f"run {run_id} cannot be made again: the ndctl that recorded it kept only the last answer of each command",
            hint=f"its findings and texts can be read: ndctl report {run_id}",
            exit_code=ExitCode.USAGE,
        )
    recorded = store.load(run_id) if line.finished is not None else None
    clusters = {name: plans[name] for name in line.clusters if name in plans}
    return Kit(run_id, line.started, plans[""], clusters, RecordShelf(store.answers, run_id), recorded)


def run_again(kit: Kit) -> Run:
    """The run, judged anew. Raises NdctlError (exit 2) for a kit that is not whole."""
    try:
        return _run_again(kit)
    except (NotRemembered, KeyError, TypeError, ValueError, AttributeError) as error:
        raise NdctlError(
            "replay.damaged",
            f"run {kit.run_id} cannot be made again: {error}",
            hint="what was kept of it is damaged, or of another version of ndctl",
            exit_code=ExitCode.USAGE,
        ) from error


def _run_again(kit: Kit) -> Run:
    request = _request(kit.plan)
    today = date.fromisoformat(kit.plan["today"])
    interrupted = kit.recorded is not None and kit.recorded.interrupted
    inventories: list[Loaded] = []
    gathered: list[Gathered] = []
    unasked: dict[str, NdctlError] = {}
    for name, part in kit.clusters.items():
        loaded = remembered_inventory(name, part["inventory"])
        inventories.append(loaded)
        if "error" in part:
            unasked[name] = _error(part["error"])
        elif "racks" in part:
            cluster = remembered_cluster(name, part["racks"])
            one = Gathered(loaded, cluster, chosen(loaded.profile, request), today)
            gathered.append(one)
            # Raised where the run that is made again was interrupted.
            with suppress(KeyboardInterrupt):
                gather(one, request, ReplaySource(kit, part, cluster, interrupted), ignore_events, InOrderEngine())
        elif not interrupted:
            unasked[name] = NdctlError("replay.not-asked", "the run ended before its nodes were found")
    recorded = kit.recorded
    run = answer(
        inventories,
        gathered,
        unasked,
        run_id=kit.run_id,
        started=kit.started,
        finished=recorded.finished if recorded else kit.started,
        level=request.level,
        interrupted=interrupted,
    )
    return _with_seconds(run, recorded)


def _request(plan: Mapping[str, Any]) -> Request:
    return Request(
        paths=(),
        groups=frozenset(Group(word) for word in plan["groups"]),
        level=Level(plan["level"]),
        force=bool(plan["force"]),
        max_nodes_under_test=plan.get("max_nodes_under_test"),
        budget_s=plan.get("budget_s"),
    )


def _error(kept: Mapping[str, Any]) -> NdctlError:
    return NdctlError(str(kept["code"]), str(kept["message"]), hint=str(kept["hint"]))


def _with_seconds(run: Run, recorded: Run | None) -> Run:
    """How long the nodes took, which no replay can tell."""
    took = {(rack.cluster, rack.name): rack.seconds for rack in recorded.racks} if recorded else {}
    return replace(run, racks=tuple(replace(r, seconds=took.get((r.cluster, r.name), 0.0)) for r in run.racks))


class ReplayTransport:
    """Answers from a shelf: to the n-th asking of a question what was answered to it then.

    A question is known again by its text. A passive command whose text has changed since takes the next answer to its
    id; a job's step (it names what it starts by `token`) must be the same question, for another group of nodes would
    have answered otherwise.
    """

    def __init__(self, shelf: Shelf, cluster: str, token: str, user: str, interrupted: bool) -> None:
        self._shelf = shelf
        self._cluster = cluster
        self._job_marks = (f"{token}-", f"{token}x")
        self._user = user
        self._interrupted = interrupted
        self._left: dict[str, list[Kept]] = {}
        self._outcomes: dict[str, Mapping[int, Outcome]] = {}
        self._lock = threading.Lock()

    @property
    def user(self) -> str:
        return self._user

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        return {
            node: self._answer(node, commands) or NodeAnswer(node, _NOT_ASKED) for node, commands in requests.items()
        }

    def collect(self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None]) -> None:
        missing = False
        for node, commands in requests.items():
            told = self._answer(node, commands)
            if told is None:
                missing = True
            else:
                on_answer(told)
        if missing and self._interrupted:
            raise KeyboardInterrupt

    def host_key_lines(self, node: Node) -> tuple[str, ...]:
        kept = self._shelf.one(self._cluster, node.name, HOST_KEYS, 1)
        return tuple(kept.stdout.splitlines()) if kept is not None else ()

    def stop(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is open."""

    def _answer(self, node: Node, commands: Sequence[Command]) -> NodeAnswer | None:
        """None when nothing of it was ever asked."""
        with self._lock:
            if node.name not in self._left:
                history = self._shelf.of_node(self._cluster, node.name)
                self._left[node.name] = [one for one in history.kept if one.asking is not None]
                self._outcomes[node.name] = history.askings
            taken = [self._take(self._left[node.name], command) for command in commands or [Command("", "")]]
            outcomes = self._outcomes[node.name]
        asked = [one for one in taken if one is not None]
        if not asked:
            return None
        fates = [outcomes.get(one.asking, _NOT_ASKED) for one in asked if one.asking is not None]
        outcome = next((fate for fate in fates if not fate.ok), fates[0])
        told = [self._shelf.one(self._cluster, node.name, one.command, one.turn) for one in asked if one.answered]
        return NodeAnswer(node, outcome, {result.id: result for result in told if result is not None})

    def _take(self, left: list[Kept], command: Command) -> Kept | None:
        asked = question(command)
        of_id = [one for one in left if one.command == command.id]
        found = next((one for one in of_id if one.question == asked), None)
        if found is None and not any(mark in command.shell for mark in self._job_marks):
            found = next(iter(of_id), None)
        if found is not None:
            left.remove(found)
        return found


class ReplaySource:
    """The surroundings of a run as they were."""

    def __init__(self, kit: Kit, part: Mapping[str, Any], cluster: Cluster, interrupted: bool) -> None:
        self._kit = kit
        self._part = part
        self._cluster = cluster
        self._interrupted = interrupted
        self._reads = {rack: list(reads) for rack, reads in part.get("clock", {}).items()}
        self._last: dict[str, float] = {}
        self._of = threading.local()

    @property
    def token(self) -> str:
        return str(self._kit.plan["token"])

    @property
    def holder(self) -> str:
        return str(self._kit.plan["holder"])

    @property
    def across_token(self) -> str:
        return f"{self.token}x{self._kit.plan.get('resumed') or ''}"

    def worker(self, live: LiveWork, one: Gathered, request: Request, on_event: EventSink) -> LiveWork:
        return live

    def rack_ended(self, rack: str) -> None:
        """It is noted already."""

    def transport(self) -> ReplayTransport:
        user = str(self._part.get("user", ""))
        return ReplayTransport(self._kit.shelf, self._cluster.name, self.token, user, self._interrupted)

    def keep_text(self, node: str, command: str, text: str) -> None:
        """It is kept already."""

    def client_trouble(self, rack: str) -> str:
        said = self._part.get("client", "")
        return str(said.get(rack, "") if isinstance(said, Mapping) else said)

    def found_per_check(self) -> Past:
        return {check: (int(runs), int(found)) for check, (runs, found) in self._part.get("past", {}).items()}

    def earlier(self, rack: str) -> Mapping[Measured, tuple[float, ...]]:
        rows = self._part.get("earlier", {}).get(rack, [])
        return {Measured(node, metric, subject): tuple(values) for node, metric, subject, values in rows}

    def clock(self) -> float:
        rack = getattr(self._of, "rack", "")
        reads = self._reads.get(rack)
        now = float(reads.pop(0)) if reads else self._last.get(rack, 0.0) + _LATER_S
        self._last[rack] = now
        return now

    def sleep(self, seconds: float) -> None:
        """The past need not be waited for."""

    @contextmanager
    def timing(self, rack: str) -> Iterator[None]:
        before = getattr(self._of, "rack", "")
        self._of.rack = rack
        try:
            yield
        finally:
            self._of.rack = before
