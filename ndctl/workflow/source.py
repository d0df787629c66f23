"""What gathering a cluster needs of its surroundings: live and recorded (`workflow.recording`), or from a record
(`workflow.replay`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ndctl.model.places import Rack
from ndctl.record.past import Measured
from ndctl.workflow.transport import Transport

if TYPE_CHECKING:
    from ndctl.model.events import EventSink
    from ndctl.workflow.gathered import Gathered
    from ndctl.workflow.rack_work import LiveWork
    from ndctl.workflow.validate import Request

Past = Mapping[str, tuple[int, int]]  # check -> runs it was in, runs it found something in


class Source(Protocol):
    """What gathering one cluster needs of its surroundings, live or from a record.

    token:  names what the run starts on nodes; holder: who holds their leases, for people
    """

    @property
    def token(self) -> str: ...

    @property
    def holder(self) -> str: ...

    @property
    def across_token(self) -> str:
        """Names what is started between racks."""
        ...

    def transport(self) -> Transport: ...

    def worker(self, live: LiveWork, one: Gathered, request: Request, on_event: EventSink) -> Worker:
        """What works on the racks: `live`, or what spares it the racks that had ended."""
        ...

    def rack_ended(self, rack: str) -> None:
        """The rack's own work is done."""
        ...

    def keep_text(self, node: str, command: str, text: str) -> None: ...

    def client_trouble(self, rack: str) -> str:
        """What is wrong with the machine that asked a rack's nodes, "" when nothing is."""
        ...

    def found_per_check(self) -> Past: ...

    def earlier(self, rack: str) -> Mapping[Measured, tuple[float, ...]]: ...

    def clock(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    def timing(self, rack: str) -> Any:
        """A context in which this thread reads `clock` on behalf of `rack`, or of a part of its work ("": of all)."""
        ...


class Worker(Protocol):
    def __call__(self, rack: Rack) -> None: ...

    def stop(self) -> None: ...
