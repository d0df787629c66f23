"""Gather what a cluster has to say: its racks side by side, then the tests between them, then the record's past."""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING

from ndctl.jobs.active.base import INTERRUPTED
from ndctl.model.events import EventSink
from ndctl.model.places import Rack
from ndctl.model.status import Level
from ndctl.workflow.bounds import NodeBound
from ndctl.workflow.engines import Engine, LocalEngine
from ndctl.workflow.executors import wait_for_all
from ndctl.workflow.gathered import Gathered, done_with
from ndctl.workflow.history import hold_against_past
from ndctl.workflow.rack_work import RackWork, shared_by_tests
from ndctl.workflow.source import Source
from ndctl.workflow.transport import Transport, remarks_told

if TYPE_CHECKING:
    from ndctl.workflow.validate import Request

_LOCAL = LocalEngine()


def gather(
    one: Gathered,
    request: Request,
    source: Source,
    on_event: EventSink,
    engine: Engine = _LOCAL,
) -> None:
    """Ask all nodes and at standard level run the active tests; then hold what was measured against the past.

    The first Ctrl-C ends it in an orderly way: whoever is being asked may finish for a few seconds, active tests are
    ended and their processes with them; then KeyboardInterrupt is raised. The second raises LeaveNow at once.
    """
    with closing(source.transport()) as transport, remarks_told(transport, one.cluster.name, on_event):
        _gather(one, request, source, on_event, transport, engine)
    for rack in one.cluster.racks:
        if rack.name not in one.results:
            hold_against_past(one, rack, source.earlier)


def _gather(
    one: Gathered,
    request: Request,
    source: Source,
    on_event: EventSink,
    transport: Transport,
    engine: Engine,
) -> None:
    bound = NodeBound(request.max_nodes_under_test)
    here = RackWork(one, request, source, transport, bound, on_event)
    work = source.worker(engine.work(here, one, request, source, transport, on_event), one, request, on_event)
    across = None
    if request.level is not Level.QUICK:
        from ndctl.workflow.across import AcrossTests

        shared = shared_by_tests(one, request, source, bound, on_event)
        across = AcrossTests(transport, one.loaded, token=source.across_token, **shared)
        # Before anything is asked: whenever the run is left, a rack lacks what was not run.
        one.required += across.required(len(one.cluster.racks))
    racks = engine.executor()

    def work_on(rack: Rack) -> None:
        work(rack)
        if across is None:  # else more may come of it
            here.backlog.to_judge(rack.name)
            try:
                done_with(one, rack, source.earlier)
            finally:
                here.backlog.judged(rack.name)

    try:
        wait_for_all([racks.submit(work_on, rack) for rack in one.cluster.racks], work.stop)
    finally:
        racks.shutdown(wait=False, cancel_futures=True)
    if across is None:
        return
    if any(f.message == INTERRUPTED for active in one.active.values() for f in active.findings):
        raise KeyboardInterrupt  # of a run that is made again: it went no further
    from ndctl.workflow.across import RackSoFar

    across.run(
        [
            RackSoFar(rack, {n: one.answers[n] for n in rack.nodes if n in one.answers}, one.active[rack.name])
            for rack in one.cluster.racks
            if rack.name in one.active  # a rack that was given up has none
        ],
        here.ended,
        spent_s=0.0 if math.isinf(here.tests_begun) else source.clock() - here.tests_begun,
    )
