"""Gather what a cluster has to say: its racks side by side, then the tests between them, then the record's past."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import closing
from typing import TYPE_CHECKING

from ndctl.model.events import EventSink
from ndctl.model.status import Level
from ndctl.workflow.bounds import NodeBound
from ndctl.workflow.executors import DaemonExecutor, wait_for_all
from ndctl.workflow.gathered import Gathered
from ndctl.workflow.history import hold_against_past
from ndctl.workflow.rack_work import RackWork, shared_by_tests
from ndctl.workflow.recording import Source
from ndctl.workflow.transport import Transport

if TYPE_CHECKING:
    from ndctl.workflow.validate import Request

# A rack whose node is silent holds its place until the deadline: there are places for far more racks than are asked at
# one moment (`--fanout` counts nodes), and not so many that their threads weigh.
RACKS_IN_WORK = 128


def local_executor() -> Executor:
    """Racks on threads of this process."""
    return DaemonExecutor(RACKS_IN_WORK)


def gather(
    one: Gathered,
    request: Request,
    source: Source,
    on_event: EventSink,
    executor: Callable[[], Executor] = local_executor,
) -> None:
    """Ask all nodes and at standard level run the active tests; then hold what was measured against the past.

    The first Ctrl-C ends it in an orderly way: whoever is being asked may finish for a few seconds, active tests are
    ended and their processes with them; then KeyboardInterrupt is raised. The second raises LeaveNow at once.
    """
    with closing(source.transport()) as transport:
        _gather(one, request, source, on_event, transport, executor)
    hold_against_past(one, source.earlier)


def _gather(
    one: Gathered,
    request: Request,
    source: Source,
    on_event: EventSink,
    transport: Transport,
    executor: Callable[[], Executor],
) -> None:
    bound = NodeBound(request.max_nodes_under_test)
    work = RackWork(one, request, source, transport, bound, on_event)
    worker = source.worker(work, one, request, on_event)
    racks = executor()
    try:
        wait_for_all([racks.submit(worker, rack) for rack in one.cluster.racks], worker.stop)
    finally:
        racks.shutdown(wait=False, cancel_futures=True)
    if request.level is Level.QUICK:
        return
    from ndctl.workflow.across import AcrossTests, RackSoFar

    shared = shared_by_tests(one, request, source, bound, on_event)
    AcrossTests(transport, one.loaded, token=source.across_token, **shared).run(
        [
            RackSoFar(rack, {n: one.answers[n] for n in rack.nodes if n in one.answers}, one.active[rack.name])
            for rack in one.cluster.racks
        ],
        work.ended,
        spent_s=0.0 if math.isinf(work.tests_begun) else source.clock() - work.tests_begun,
    )
