"""One rack worked on in another process: what is sent there, what is done there, and what comes back.

Everything here is picklable. The login key is never sent: a worker needs it at the place the inventory names, or in its
agent. Host keys are sent: a worker trusts those that the sender trusts.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ndctl import __version__
from ndctl.inventory.loader import Loaded
from ndctl.inventory.proven import Proven, with_proven
from ndctl.inventory.schema import Inventory
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import EventSink
from ndctl.model.places import Cluster, Node, Rack
from ndctl.model.status import Level
from ndctl.profiles import load as load_profile
from ndctl.profiles.marked_yaml import Document
from ndctl.workflow.bounds import NodeBound
from ndctl.workflow.rack_work import RackWork, end_leftovers
from ndctl.workflow.recording import Recorder
from ndctl.workflow.remembered import Remembered
from ndctl.workflow.source import Past

if TYPE_CHECKING:
    from ndctl.record.store import Store
    from ndctl.ssh.settings import SshSettings
    from ndctl.workflow.active import ActiveResult
    from ndctl.workflow.validate import Request


_STOP_LOOKED_AT_S = 1.0


@dataclass(frozen=True, slots=True)
class RackOrder:
    """What a worker needs to work on a rack.

    proven:     what takes the place of the profile's own figures
    inventory:  as JSON; path and digest are those of its file, for what is told of it
    settings:   how nodes are reached; its known_hosts are replaced by `host_keys`, lines of such a file
    known:      answers that need not be asked for again
    """

    version: str
    inventory: Mapping[str, Any]
    path: str
    digest: str
    profile: str
    proven: Mapping[str, Proven]
    settings: SshSettings
    rack: Rack
    request: Request
    today: date
    token: str
    holder: str
    host_keys: tuple[str, ...]
    past: Past | None
    known: Mapping[Node, NodeAnswer]

    @property
    def cluster(self) -> str:
        return str(self.inventory["cluster"])

    def loaded(self) -> Loaded:
        path = Path(self.path)
        document = Document(file=path, data={}, places={})
        inventory = Inventory.model_validate(self.inventory)
        profile = with_proven(load_profile(self.profile), self.cluster, self.proven)
        return Remembered(inventory, path, profile, document, self.proven, told=self.digest)


@dataclass(slots=True)
class RackReport:
    """What came of a rack: the judged-from answers, and all that a record keeps, in the order it came."""

    answers: dict[Node, NodeAnswer] = field(default_factory=dict)
    active: ActiveResult | None = None
    seconds: float = 0.0
    askings: list[tuple[tuple[Command, ...], NodeAnswer]] = field(default_factory=list)
    texts: list[tuple[str, str, str]] = field(default_factory=list)  # (node, command, text)
    noted: dict[str, Any] = field(default_factory=dict)  # as `Source.take_over` takes it
    stopped: bool = False


class _Kept:
    """What a record is for a worker: a list to be sent home. It has what recording needs of a `Store`."""

    def __init__(self, report: RackReport, past: Past | None) -> None:
        self._report = report
        self._past = past
        self._lock = threading.Lock()
        self.answers = self

    def keep_asking(self, run_id: str, cluster: str, commands: Sequence[Command], answer: NodeAnswer) -> None:
        with self._lock:
            self._report.askings.append((tuple(commands), answer))

    def keep_text(self, run_id: str, cluster: str, node: str, command: str, text: str) -> None:
        with self._lock:
            self._report.texts.append((node, command, text))

    def keep_plan(self, run_id: str, cluster: str, body: Mapping[str, Any]) -> None:
        if "/" in cluster:  # of a rack that has ended
            self._report.noted = dict(body)

    def found_per_check(self) -> Past:
        return self._past or {}


def work_on_rack(order: RackOrder, on_event: EventSink, stopped: Callable[[], bool], bound: NodeBound) -> RackReport:
    """Do it, in a process that need not share anything with the one that sent the order.

    stopped: asked every second; once true, the rack is ended in an orderly way.
    Raises NdctlError when this process has another ndctl, or no key to log in with.
    """
    if order.version != __version__:
        raise NdctlError(
            "engine.version",
            f"the worker has ndctl {__version__}, the run is made by {order.version}",
            hint="install the same ndctl on every worker",
            exit_code=ExitCode.USAGE,
        )
    from ndctl.workflow.gathered import Gathered
    from ndctl.workflow.transport import SshTransport
    from ndctl.workflow.validate import chosen

    loaded = order.loaded()
    report = RackReport()
    kept = cast("Store", _Kept(report, order.past))
    recorder = Recorder(kept, order.token, "", {}, order.today)
    recorder.token, recorder.holder = order.token, order.holder
    cluster = Cluster(order.cluster, (order.rack,))
    with tempfile.TemporaryDirectory(prefix="ndctl-worker-") as folder:
        known_hosts = Path(folder) / "known_hosts"
        known_hosts.write_text("".join(f"{line}\n" for line in order.host_keys), encoding="utf-8")
        transport = SshTransport(replace(order.settings, known_hosts=(known_hosts,)))
        source = recorder.cluster(loaded, lambda *_: transport, order.request.fanout)
        source.found(cluster)
        one = Gathered(loaded, cluster, chosen(loaded.profile, order.request), order.today)
        work = RackWork(one, order.request, source, source.transport(), bound, on_event)
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_STOP_LOOKED_AT_S):
                if stopped():
                    report.stopped = True
                    work.stop()
                    return

        watching = threading.Thread(target=watch, name="ndctl-stop", daemon=True)
        watching.start()
        try:
            if order.request.level is not Level.QUICK:
                end_leftovers(transport, order.token, order.rack, order.rack.nodes)
            work(order.rack, order.known)
        finally:
            over.set()
            watching.join(5)
            transport.close()
    report.answers = dict(one.answers)
    report.active = one.active.get(order.rack.name)
    report.seconds = one.seconds.get(order.rack.name, 0.0)
    report.noted.setdefault("client", dict(one.client))
    return report
