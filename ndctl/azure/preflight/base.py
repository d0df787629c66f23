"""What every line of a pre-flight is made with: whom to ask, what was asked already, and what a silence means."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from azure.core.exceptions import AzureError

from ndctl.azure.asked import asked_of, in_blocks
from ndctl.azure.clients import AzureClients
from ndctl.azure.faults import AzureFault, fault_from_exception
from ndctl.azure.preflight.live import Standing as Live
from ndctl.azure.preflight.live import standing_vms
from ndctl.azure.resources import GroupContents, list_group
from ndctl.checks.azure_errors import FaultClass
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.preflight import PreflightLine, Standing
from ndctl.render import names
from ndctl.render.inputs import creates_jump

if TYPE_CHECKING:
    from ndctl.azure.roles import When
    from ndctl.inventory.loader import Loaded
    from ndctl.render.rendered import Rendered

T = TypeVar("T")


class Once(Generic[T]):
    """A question asked once, however many lines want the answer; a failure is everybody's failure."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._answer: list[T] = []
        self._error: Exception | None = None

    def __call__(self) -> T:
        with self._lock:
            if self._error is not None:
                raise self._error
            if not self._answer:
                try:
                    self._answer.append(self._ask())
                except Exception as error:
                    self._error = error
                    raise
            return self._answer[0]


class Ask:
    """One inventory's pre-flight. `signed_out`: why there are no clients; lines that ask Azure then cannot."""

    def __init__(
        self,
        loaded: Loaded,
        clients: AzureClients | None,
        verbs: tuple[str, ...],
        *,
        signed_out: NdctlError | None = None,
        rendered: Callable[[], Rendered] | None = None,
        group: Callable[[], GroupContents] | None = None,
    ) -> None:
        self.loaded = loaded
        self.verbs = verbs
        self.signed_out = signed_out
        self._clients = clients
        self.rendered: Once[Rendered] = Once(rendered or self._render)
        self.group: Once[GroupContents] = Once(group or self._group)
        self.standing: Once[Live] = Once(lambda: standing_vms(self.clients, self.cluster, self.group().exists))
        self.sizes: Once[dict[str, Any]] = Once(self._sizes)

    @property
    def clients(self) -> AzureClients:
        """Raises NdctlError when nobody is signed in."""
        if self._clients is None:
            raise self.signed_out or NdctlError("azure.sign-in", "not signed in", exit_code=ExitCode.PERMISSION)
        return self._clients

    @property
    def cluster(self) -> str:
        return self.loaded.inventory.cluster

    @property
    def region(self) -> str:
        return self.loaded.inventory.region or ""

    @property
    def vm_size(self) -> str:
        return self.loaded.inventory.vm_size or ""

    @property
    def racks(self) -> int:
        return self.loaded.inventory.racks or 0

    @property
    def inventory(self) -> str:
        return str(self.loaded.path)

    @property
    def creates_jump(self) -> bool:
        return creates_jump(self.loaded.inventory)

    def jump_stands(self) -> bool:
        wanted = names.jump_vm(self.cluster).casefold()
        return any(
            one.type.casefold() == "microsoft.compute/virtualmachines" and one.name.casefold() == wanted
            for one in self.group().ours
        )

    @property
    def in_blocks(self) -> bool:
        return in_blocks(self.loaded)

    @property
    def asked(self) -> tuple[When, ...]:
        """Which of the conditional permissions this inventory comes to need."""
        return asked_of(self.loaded)

    def _render(self) -> Rendered:
        from ndctl.render import render

        return render(self.loaded)

    def _group(self) -> GroupContents:
        return list_group(self.clients, self.cluster)

    def _sizes(self) -> dict[str, Any]:
        """Resource SKUs of virtual machines in the region, by name in lower case."""
        listed = self.clients.compute.resource_skus.list(filter=f"location eq '{self.region}'")
        return {
            (one.name or "").casefold(): one
            for one in listed
            if (one.resource_type or "").casefold() == "virtualmachines"
        }


@dataclass(frozen=True, slots=True)
class Probe:
    """A question. `ask` may raise what Azure raises: then its line cannot be proved, with the reason."""

    id: str
    title: str
    source: str
    ask: Callable[[Ask, Probe], Iterable[PreflightLine]]
    lines: tuple[tuple[str, str], ...] = ()  # (id, title) of its lines, where they are always the same several

    def silent(self, message: str, next_step: str) -> tuple[PreflightLine, ...]:
        """All its lines, when none of them could be asked."""
        each = self.lines or ((self.id, self.title),)
        return tuple(self.unproved(message, next_step, id=id, title=title) for id, title in each)

    def proved(self, message: str, *, id: str = "", **more: Any) -> PreflightLine:
        return self._line(Standing.PROVED, message, id, **more)

    def refused(self, message: str, next_step: str, *, id: str = "", **more: Any) -> PreflightLine:
        return self._line(Standing.REFUSED, message, id, next_step=next_step, **more)

    def unproved(self, message: str, next_step: str, *, id: str = "", **more: Any) -> PreflightLine:
        return self._line(Standing.UNPROVED, message, id, next_step=next_step, **more)

    def _line(self, standing: Standing, message: str, id: str, **more: Any) -> PreflightLine:
        facts = more.pop("facts", {})
        source = more.pop("source", "") or self.source
        title = more.pop("title", "") or self.title
        return PreflightLine(id or self.id, title, standing, message, source, facts=facts, **more)


def answer(probe: Probe, ask: Ask) -> tuple[PreflightLine, ...]:
    """The probe's lines. Never raises for what Azure says or fails to say."""
    try:
        return tuple(probe.ask(ask, probe))
    except AzureError as error:
        fault = fault_from_exception(error)
        return probe.silent(f"Azure was asked and did not tell: {reason(fault)}", next_after(fault, ask))
    except NdctlError as error:
        return probe.silent(error.message.splitlines()[0], error.hint or "mend that and run this again")
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        told = f"Azure's answer could not be read ({type(error).__name__}: {error})"
        return probe.silent(told, "run again with -v and report it")


def reason(fault: AzureFault, most: int = 300) -> str:
    """`AuthorizationFailed: The client …`, cut where it gets long."""
    code = fault.innermost_code or fault.code or (f"HTTP {fault.status}" if fault.status else "no code")
    text = fault.innermost_message or fault.message
    return f"{code}: {text if len(text) <= most else text[:most] + '…'}" if text else code


def next_after(fault: AzureFault, ask: Ask) -> str:
    if fault.fault_class is FaultClass.PERMISSION:
        return f"have the role of pre-flight assigned: ndctl roles {ask.inventory} --for preflight -o json"
    if fault.status == 404:
        return f"deploy tells: ndctl deploy {ask.inventory}"
    if fault.retryable:
        return f"run it again later: ndctl preflight {ask.inventory}"
    return fault.next_step


def count(number: int, thing: str) -> str:
    """`1 rack`, `2 racks`, `1,152 VMs`"""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
