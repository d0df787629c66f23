"""Where racks are worked on: in this process, or on the workers of a Dask cluster (`workflow.dask_engine`)."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING, Protocol

from ndctl.workflow.executors import AtOnceExecutor, DaemonExecutor

if TYPE_CHECKING:
    from ndctl.model.events import EventSink
    from ndctl.workflow.gathered import Gathered
    from ndctl.workflow.rack_work import LiveWork, RackWork
    from ndctl.workflow.source import Source
    from ndctl.workflow.transport import Transport
    from ndctl.workflow.validate import Request

# A rack whose node is silent holds its place until the deadline: there are places for far more racks than are asked at
# one moment (`--fanout` counts nodes), and not so many that their threads weigh.
RACKS_IN_WORK = 128


class Engine(Protocol):
    """The unit of work is a rack."""

    def executor(self) -> Executor:
        """What calls the work with one rack after another, as many at once as it likes."""
        ...

    def work(
        self, here: RackWork, one: Gathered, request: Request, source: Source, transport: Transport, on_event: EventSink
    ) -> LiveWork:
        """What works on a rack. here: what would do it in this process."""
        ...


class LocalEngine:
    """Racks side by side on threads of this process."""

    def executor(self) -> Executor:
        return DaemonExecutor(RACKS_IN_WORK)

    def work(
        self, here: RackWork, one: Gathered, request: Request, source: Source, transport: Transport, on_event: EventSink
    ) -> LiveWork:
        return here


class InOrderEngine(LocalEngine):
    """One rack after the other, in a fixed order."""

    def executor(self) -> Executor:
        return AtOnceExecutor()
