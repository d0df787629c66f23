"""Racks spread over the workers of a Dask cluster (extra `ndctl[dask]`), for fleets that one machine cannot hold.

A rack is one task: sent to a worker, asked, tested and sent back whole. What happens meanwhile comes back as events. A
worker that is lost costs its racks another try elsewhere, which Dask sees to. Tests between racks, judging and the
record stay where the run is made.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ndctl import __version__
from ndctl.model.answers import NodeAnswer, Outcome, OutcomeKind
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import Event, EventSink
from ndctl.model.places import Node, Rack
from ndctl.model.status import Level
from ndctl.workflow.bounds import NodeBound
from ndctl.workflow.cluster_bound import ClusterBound
from ndctl.workflow.executors import DaemonExecutor
from ndctl.workflow.gathered import merged
from ndctl.workflow.rack_work import RackWork
from ndctl.workflow.recording import LiveSource
from ndctl.workflow.remote_rack import RackOrder, work_on_rack
from ndctl.workflow.sent_rack import PackedRack, SentRack, packed, unpacked
from ndctl.workflow.transport import SshTransport

if TYPE_CHECKING:
    from ndctl.workflow.gathered import Gathered
    from ndctl.workflow.rack_work import LiveWork
    from ndctl.workflow.source import Source
    from ndctl.workflow.transport import Transport
    from ndctl.workflow.validate import Request

CONNECT_S = 15.0  # to the scheduler, and for the first worker to be there
RETRIES = 3  # of a rack whose worker failed or was lost
_RACKS_IN_FLIGHT = 512
_STOP_GRACE_S = 20.0  # of a worker to end its rack and send what it has
_LOOK_AGAIN_S = 0.5
_ADDRESS = re.compile(r"^([a-z]+://)?[^/\s]+:\d+/?$")
GO_ON = "the same command with --resume goes on"
LOOK = f"look at the scheduler's and the workers' logs; {GO_ON}"
_TOLD = ("type", "status", "cluster", "rack", "node", "step", "message")  # of an event


def _keep_quiet() -> None:
    """ndctl tells its own story. Several of Dask's loggers have a level of their own, whatever their parent's is."""
    for name in ["distributed", *logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class DaskEngine:
    """A `workflow.engines.Engine` over a scheduler; a context manager.

    Raises NdctlError (exit 2) when dask.distributed is not installed, the scheduler does not answer, or has no worker.
    """

    def __init__(self, scheduler: str) -> None:
        if not _ADDRESS.match(scheduler):
            raise NdctlError(
                "engine.scheduler",
                f"{scheduler!r} is no address of a Dask scheduler",
                hint="e.g. --scheduler tls://10.0.0.4:8786",
                exit_code=ExitCode.USAGE,
            )
        try:
            from distributed import Client
        except ImportError as error:
            raise NdctlError(
                "engine.dask-missing",
                "--engine dask needs dask.distributed, which is not installed",
                hint="pip install 'ndctl[dask]'   (here and on every worker)",
                exit_code=ExitCode.USAGE,
            ) from error
        _keep_quiet()
        try:
            self._client = Client(scheduler, timeout=CONNECT_S, set_as_default=False, name="ndctl")
        except (OSError, ValueError, TimeoutError) as error:
            raise NdctlError(
                "engine.scheduler",
                f"no Dask scheduler answers at {scheduler}: {error}",
                hint="start one with: dask scheduler   and workers with: dask worker SCHEDULER",
                exit_code=ExitCode.USAGE,
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError as error:
            self.close()
            raise NdctlError(
                "engine.no-worker",
                f"the Dask scheduler at {scheduler} has no worker",
                hint=f"start some with: dask worker {scheduler}",
                exit_code=ExitCode.USAGE,
            ) from error
        self._name = f"ndctl-{secrets.token_hex(6)}"
        self._sinks: dict[str, EventSink] = {}
        self._client.subscribe_topic(self._name, self._tell)

    def __enter__(self) -> DaskEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with suppress(OSError, ValueError, TimeoutError):
            self._client.close(timeout=5)

    def executor(self) -> Executor:
        return DaemonExecutor(_RACKS_IN_FLIGHT)

    def work(
        self, here: RackWork, one: Gathered, request: Request, source: Source, transport: Transport, on_event: EventSink
    ) -> LiveWork:
        if not isinstance(source, LiveSource) or not isinstance(source.unrecorded, SshTransport):
            raise TypeError("only a live run over SSH is spread over workers")
        self._sinks[one.cluster.name] = on_event
        return _SentWork(self._client, self._name, here, one, request, source, source.unrecorded, on_event)

    def _tell(self, message: tuple[float, Any]) -> None:
        """An event of a worker; Dask calls it with (time, what was logged)."""
        told = {key: str(message[1].get(key, "")) for key in _TOLD}  # Dask adds who logged it
        sink = self._sinks.get(told["cluster"])
        if sink is not None:
            address = str(message[1].get("address", ""))
            sink(Event(**told, data={"address": address} if address else {}))


class _SentWork:
    """Sends racks to workers and puts what they report where work done here would have put it."""

    def __init__(
        self,
        client: Any,
        name: str,
        here: RackWork,
        one: Gathered,
        request: Request,
        source: LiveSource,
        ssh: SshTransport,
        on_event: EventSink,
    ) -> None:
        from distributed import Event as Flag

        self.commands = here.commands
        self._client = client
        # A concurrent.futures.Executor over the cluster: what it is given may be tried again on another worker.
        self._workers = client.get_executor(retries=RETRIES, pure=False)
        self._name = name
        self._here = here
        self._one = one
        self._request = request
        self._source = source
        self._ssh = ssh
        self._on_event = on_event
        self._flag = Flag(f"{name}-stop", client=client)
        self._stopped_at: float | None = None
        self._past = source.found_per_check() if request.budget_s is not None else None
        self._begun: float | None = None
        self._lock = threading.Lock()

    def __call__(self, rack: Rack, known: Mapping[Node, NodeAnswer] = {}) -> None:
        if self._stopped_at is not None:
            return
        with self._lock:
            if self._begun is None and self._request.budget_s is not None:
                self._begun = self._source.clock()
                self._here.tests_begun = min(self._here.tests_begun, self._begun)
        future = self._workers.submit(_on_worker, self._order(rack, known), self._name)
        packed_rack = self._report(rack, future)
        if packed_rack is not None:
            self._take(rack, unpacked(packed_rack))

    def stop(self) -> None:
        """Workers notice within a second; what they have is waited for."""
        self._stopped_at = time.monotonic()
        with suppress(OSError, TimeoutError):
            self._flag.set()
        self._here.stop()

    def _order(self, rack: Rack, known: Mapping[Node, NodeAnswer]) -> RackOrder:
        loaded = self._one.loaded
        lines = [line for node in rack.nodes for line in self._ssh.host_key_lines(node)]
        return RackOrder(
            version=__version__,
            inventory=loaded.inventory.model_dump(mode="json"),
            path=str(loaded.path),
            digest=loaded.digest,
            profile=loaded.profile.name,
            proven=loaded.proven,
            settings=self._ssh.settings,
            host_keys=(*lines, *self._ssh.jump_key_lines()),
            rack=rack,
            request=self._request,
            today=self._one.today,
            token=self._source.token,
            holder=self._source.holder,
            past=self._past,
            known=known,
        )

    def _report(self, rack: Rack, future: Future[PackedRack]) -> PackedRack | None:
        """None when the rack is given up: after a stop no worker sent anything in time, or every try failed."""
        while True:
            try:
                return future.result(_LOOK_AGAIN_S)
            except NotYet:
                if self._stopped_at is not None and time.monotonic() > self._stopped_at + _STOP_GRACE_S:
                    future.cancel()
                    self._nobody(rack, "stopped from here; its worker sent nothing in time", GO_ON)
                    return None
            except NdctlError:
                raise
            except CancelledError:  # nobody here cancels what is still waited for
                self._nobody(rack, "the Dask scheduler was lost, and its workers with it", LOOK)
                return None
            except Exception as error:  # whatever a worker's process died of, the rack has no answer
                why = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                self._nobody(rack, f"its worker failed {RETRIES + 1} times: {why}", LOOK)
                return None

    def _nobody(self, rack: Rack, why: str, hint: str) -> None:
        """The rack did not end, and the record has no end of it: nobody on it is to blame, and --resume does it."""
        for node in rack.nodes:
            answer = NodeAnswer(node, Outcome(OutcomeKind.INTERRUPTED, why, hint))
            self._one.answers[node] = merged(self._one.answers.get(node), answer)
        self._on_event(Event("rack", "failed", cluster=self._one.cluster.name, rack=rack.name, message=why))

    def _take(self, rack: Rack, sent: SentRack) -> None:
        report = sent.report
        self._source.keep_sent(sent)
        self._source.take_over(rack.name, report.noted)
        one = self._one
        one.answers.update(report.answers)
        if report.active is not None:
            one.active[rack.name] = report.active
        one.seconds[rack.name] = report.seconds
        one.client[rack.name] = report.noted.get("client", {}).get(rack.name, "")
        if not report.stopped:
            self._source.rack_ended(rack.name)


def _on_worker(order: RackOrder, name: str) -> PackedRack:
    """The task. Runs in a worker's process."""
    from distributed import Event as Flag
    from distributed import get_client, get_worker

    worker = get_worker()
    flag = Flag(f"{name}-stop", client=get_client(timeout=CONNECT_S))

    def tell(event: Event) -> None:
        told = {key: getattr(event, key) for key in _TOLD}
        worker.log_event(name, told | {"address": event.data.get("address", "")})

    limit = order.request.max_nodes_under_test
    bound = ClusterBound(limit, name) if limit is not None and order.request.level is not Level.QUICK else NodeBound()
    return packed(work_on_rack(order, tell, lambda: bool(flag.is_set()), bound))
