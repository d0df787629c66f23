"""Everything that can be known before a deployment, for one inventory or several side by side. Changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ndctl.azure.clients import AzureClients, connect
from ndctl.azure.preflight import PROBES, Ask, answer
from ndctl.azure.roles import verb_names
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.preflight import Preflight, PreflightLine
from ndctl.workflow.side_by_side import side_by_side

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

DEFAULT_VERBS = ("preflight", "plan", "deploy", "validate")
PROBES_AT_ONCE = 6
INVENTORIES_AT_ONCE = 8


def preflight(
    loaded: Loaded,
    verbs: Sequence[str] = DEFAULT_VERBS,
    *,
    clients: AzureClients | None = None,
    on_event: EventSink = ignore_events,
) -> Preflight:
    """Ask every line. What cannot be asked is a line that cannot be proved; a sign-in that fails is a refused line.

    clients: signed in already; they are left open. Raises NdctlError (exit 2) for static racks and unknown verbs.
    """
    _known(verbs)
    inventory = loaded.inventory
    own = signed_out = None
    if clients is None:
        try:
            clients = own = connect(loaded)
        except NdctlError as error:
            if error.exit_code is ExitCode.USAGE:
                raise
            signed_out = error
    ask = Ask(loaded, clients, tuple(verbs), signed_out=signed_out)
    try:
        found = side_by_side(
            PROBES,
            lambda probe: _tell(answer(probe, ask), inventory.cluster, on_event),
            workers=PROBES_AT_ONCE,
            stop=threading.Event(),
            grace_s=0.2,
        )
    finally:
        if own is not None:
            own.close()
    if found.interrupted:
        raise KeyboardInterrupt
    return Preflight(
        inventory=str(loaded.path),
        cluster=inventory.cluster,
        subscription=inventory.subscription or "",
        resource_group=inventory.resource_group or "",
        region=inventory.region or "",
        zone=inventory.zone or "",
        verbs=tuple(verbs),
        lines=tuple(line for index in range(len(PROBES)) for line in found.results[index]),
    )


def preflight_all(
    loaded: Sequence[Loaded], verbs: Sequence[str] = DEFAULT_VERBS, on_event: EventSink = ignore_events
) -> tuple[Preflight, ...]:
    """Several inventories side by side, in their order."""
    found = side_by_side(
        loaded,
        lambda one: preflight(one, verbs, on_event=on_event),
        workers=INVENTORIES_AT_ONCE,
        stop=threading.Event(),
        grace_s=0.5,
    )
    if found.interrupted:
        raise KeyboardInterrupt
    return tuple(found.results[index] for index in range(len(loaded)))


def _tell(lines: tuple[PreflightLine, ...], cluster: str, on_event: EventSink) -> tuple[PreflightLine, ...]:
    for line in lines:
        status = "failed" if line.refused else "done"
        on_event(Event("note", status, cluster=cluster, step=line.title, message=line.standing.value))
    return lines


def _known(verbs: Sequence[str]) -> None:
    unknown = [verb for verb in verbs if verb not in verb_names()]
    if unknown:
        raise NdctlError(
            "preflight.unknown-verb",
            f"no verb {', '.join(map(repr, unknown))} asks anything of Azure",
            hint=f"there are: {', '.join(verb_names())}",
            exit_code=ExitCode.USAGE,
        )
