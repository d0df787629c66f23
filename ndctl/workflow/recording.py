"""Where a live validation gets what it cannot repeat, and how all of it is kept, so that its record is enough to make
the same run again (`workflow.replay`).

Kept are: every answer of every asking of a node; the nodes as they were found; what the workflow read of its
surroundings (its clock, the load of this machine, the past of the record); and the names it gave to what it started.
"""

from __future__ import annotations

import getpass
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

from ndctl import __version__
from ndctl.inventory.loader import Loaded
from ndctl.inventory.proven import told
from ndctl.jobs.nccl_scripts import JOB_MARK
from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.errors import NdctlError
from ndctl.model.jsonable import jsonable
from ndctl.model.places import Cluster, Node
from ndctl.record.past import Measured
from ndctl.record.store import Store
from ndctl.workflow.client_load import client_trouble
from ndctl.workflow.resume import Resumed, ResumedWork, this_process
from ndctl.workflow.source import Past, Worker
from ndctl.workflow.transport import Transport, remarks_of

if TYPE_CHECKING:
    from ndctl.model.events import EventSink
    from ndctl.workflow.gathered import Gathered
    from ndctl.workflow.rack_work import LiveWork
    from ndctl.workflow.sent_rack import SentRack
    from ndctl.workflow.validate import Request

HOST_KEYS = "host-keys"  # known_hosts lines of a node, kept beside its answers
# Of an inventory that which judging looks at: what is not listed here is neither recorded nor put into a bundle.
_JUDGED_BY = ("cluster", "racks", "vms_per_rack", "vm_size", "image", "nccl_env", "disabled_checks", "placement")


class RecordingTransport:
    """A transport whose every answer is kept before anybody sees it."""

    def __init__(self, inner: Transport, store: Store, run_id: str, cluster: str) -> None:
        self._inner = inner
        self._store = store
        self._run_id = run_id
        self._cluster = cluster
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    @property
    def user(self) -> str:
        return self._inner.user

    @property
    def remarks(self) -> tuple[str, ...]:
        return remarks_of(self._inner)

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        begun_before = not self._stopped.is_set()
        answers = self._inner.ask(requests)
        if begun_before and self._stopped.is_set():
            answers = {node: cut_short(requests[node], answer) for node, answer in answers.items()}
        for node, answer in answers.items():
            self._keep(requests[node], answer)
        return answers

    def collect(self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None]) -> None:
        def keep(answer: NodeAnswer) -> None:
            self._keep(requests[answer.node], answer)
            on_answer(answer)

        self._inner.collect(requests, keep)

    def host_key_lines(self, node: Node) -> tuple[str, ...]:
        lines = self._inner.host_key_lines(node)
        with self._lock:
            new = bool(lines) and node.name not in self._known
            self._known.add(node.name)
        if new:
            text = "".join(f"{line}\n" for line in lines)
            self._store.answers.keep_text(self._run_id, self._cluster, node.name, HOST_KEYS, text)
        return lines

    def stop(self) -> None:
        self._stopped.set()
        self._inner.stop()

    def close(self) -> None:
        self._inner.close()

    def _keep(self, commands: Sequence[Command], answer: NodeAnswer) -> None:
        self._store.answers.keep_asking(self._run_id, self._cluster, commands, answer)


def cut_short(commands: Sequence[Command], answer: NodeAnswer) -> NodeAnswer:
    """An answer that came after a stop, which ends jobs on the nodes: what they printed then tells of the stop, and not
    of the node. Their exit code does not say which it is: a script may well outlive the load that it started."""
    jobs = {command.id for command in commands if JOB_MARK in command.shell}
    if not jobs & answer.results.keys():
        return answer
    others = {id: one for id, one in answer.results.items() if id not in jobs}
    return NodeAnswer(answer.node, Outcome(OutcomeKind.INTERRUPTED, "ended from here"), others)


class Recorder:
    """Keeps one run while it is made; hands out a `LiveSource` for each cluster."""

    def __init__(
        self,
        store: Store,
        run_id: str,
        started: str,
        settings: Mapping[str, Any],
        today: date,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        resumed: Resumed | None = None,
    ) -> None:
        self.resumed = resumed
        self.read_clock = clock
        self.sleep = sleep
        self.run_id = run_id
        self.started = started
        self.store = store
        # Two operators may begin in the same second, and what runs on a node is ended by this name.
        self.token = f"{run_id.replace(':', '-')}-{secrets.token_hex(4)}"
        self.holder = f"{getpass.getuser()}@{socket.gethostname()}, run {run_id}"
        times = 0
        if resumed is not None:
            # What the run has on nodes, leases for one, is known by its token.
            self.token, times = str(resumed.plan["token"]), resumed.times + 1
        self.across_token = f"{self.token}x{times or ''}"
        plan: dict[str, Any] = {
            "ndctl": __version__,
            "today": today.isoformat(),
            "token": self.token,
            "holder": self.holder,
        }
        plan |= {"resumed": times, "process": this_process()}
        store.keep_plan(run_id, "", {**plan, **settings})

    def cluster(self, loaded: Loaded, opener: Callable[[Loaded, Cluster, int], Transport], fanout: int) -> LiveSource:
        return LiveSource(self, loaded, opener, fanout)


class LiveSource:
    """The surroundings of a live run over one cluster; everything read of them is written down."""

    def __init__(
        self, recorder: Recorder, loaded: Loaded, opener: Callable[[Loaded, Cluster, int], Transport], fanout: int
    ) -> None:
        self._recorder = recorder
        self._loaded = loaded
        self._opener = opener
        self._fanout = fanout
        self._cluster: Cluster | None = None
        self._notes: dict[str, Any] = {"inventory": inventory_part(loaded)}
        self._clock_reads: dict[str, list[float]] = {}
        self._of = threading.local()
        self._lock = threading.Lock()
        self.unrecorded: Transport | None = None  # what `transport` gives, without its record
        self.save()

    @property
    def token(self) -> str:
        return self._recorder.token

    @property
    def holder(self) -> str:
        return self._recorder.holder

    @property
    def across_token(self) -> str:
        return self._recorder.across_token

    def found(self, cluster: Cluster) -> None:
        """The nodes that are meant."""
        self._cluster = cluster
        self._note("racks", cluster_part(cluster))
        self.save()

    def failed(self, error: NdctlError) -> None:
        """The cluster could not be asked."""
        self._note("error", {"code": error.code, "message": error.message, "hint": error.hint})
        self.save()

    def transport(self) -> Transport:
        if self._cluster is None:
            raise ValueError("no cluster was found yet")
        inner = self._opener(self._loaded, self._cluster, self._fanout)
        self._note("user", inner.user)
        self.unrecorded = inner
        return RecordingTransport(inner, self._recorder.store, self._recorder.run_id, self._cluster.name)

    def worker(self, live: LiveWork, one: Gathered, request: Request, on_event: EventSink) -> Worker:
        resumed = self._recorder.resumed
        if resumed is None or self.unrecorded is None:
            return live
        return ResumedWork(live, one, request, self, self._recorder.store, resumed, self.unrecorded, on_event)

    def rack_ended(self, rack: str) -> None:
        with self._lock:
            reads = {key: list(of) for key, of in self._clock_reads.items() if key.partition(" ")[0] == rack}
            client = {rack: self._notes.get("client", {}).get(rack, "")}
        body = {"clock": reads, "client": client}
        self._recorder.store.keep_plan(self._recorder.run_id, f"{self._loaded.inventory.cluster}/{rack}", body)

    def keep_sent(self, sent: SentRack) -> None:
        """Keep what another process has asked for this run, and the texts beside it."""
        of, run_id, cluster = self._recorder.store.answers, self._recorder.run_id, self._loaded.inventory.cluster
        for commands, answer in sent.report.askings:
            of.keep_asking(run_id, cluster, commands, answer, sent.unpacker.texts_of(answer.results.values()))
        for node, command, text in sent.report.texts:
            texts = sent.unpacker.texts_of([CommandResult(command, 0, text)])
            of.keep_text(run_id, cluster, node, command, text, texts)

    def take_over(self, rack: str, ended: Mapping[str, Any]) -> None:
        """Note what was noted of a rack by whoever worked on it: the run before this one, or another process."""
        with self._lock:
            self._clock_reads.update({str(key): list(reads) for key, reads in ended.get("clock", {}).items()})
            self._notes.setdefault("client", {})[rack] = ended.get("client", {}).get(rack, "")

    def keep_text(self, node: str, command: str, text: str) -> None:
        cluster = self._loaded.inventory.cluster
        self._recorder.store.answers.keep_text(self._recorder.run_id, cluster, node, command, text)

    def client_trouble(self, rack: str) -> str:
        said = client_trouble()
        with self._lock:
            self._notes.setdefault("client", {})[rack] = said
        return said

    def found_per_check(self) -> Past:
        past = self._recorder.store.found_per_check()
        self._note("past", {check: list(counts) for check, counts in past.items()})
        self.save()
        return past

    def earlier(self, rack: str) -> Mapping[Measured, tuple[float, ...]]:
        found = self._recorder.store.past.of_rack(self._loaded.inventory.cluster, rack, self._recorder.started)
        rows = [[one.node, one.metric, one.subject, list(values)] for one, values in found.items()]
        with self._lock:
            self._notes.setdefault("earlier", {})[rack] = rows
        return found

    def clock(self) -> float:
        now = self._recorder.read_clock()
        with self._lock:
            self._clock_reads.setdefault(getattr(self._of, "rack", ""), []).append(now)
        return now

    def sleep(self, seconds: float) -> None:
        self._recorder.sleep(seconds)

    @contextmanager
    def timing(self, rack: str) -> Iterator[None]:
        before = getattr(self._of, "rack", "")
        self._of.rack = rack
        try:
            yield
        finally:
            self._of.rack = before

    def save(self) -> None:
        """Write down what was noted so far."""
        with self._lock:
            body = {**self._notes, "clock": {rack: list(reads) for rack, reads in self._clock_reads.items()}}
        self._recorder.store.keep_plan(self._recorder.run_id, self._loaded.inventory.cluster, body)

    def _note(self, key: str, value: Any) -> None:
        with self._lock:
            self._notes[key] = value


def inventory_part(loaded: Loaded) -> dict[str, Any]:
    """What judging needs of an inventory, as JSON: no login, no network, no subscription."""
    kept = {key: jsonable(loaded.inventory.model_dump()[key]) for key in _JUDGED_BY}
    proven = {"proven": told(loaded.proven)} if loaded.proven else {}
    return {"path": str(loaded.path), "digest": loaded.digest, "profile": loaded.profile.name} | kept | proven


def cluster_part(cluster: Cluster) -> list[dict[str, Any]]:
    """Racks and nodes as they were found, as JSON. ARM ids are left out: they hold the subscription."""
    racks: list[dict[str, Any]] = jsonable(cluster.racks)
    for rack in racks:
        for node in rack["nodes"]:
            node.pop("resource_id")
    return racks
