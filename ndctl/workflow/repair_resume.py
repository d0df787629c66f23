"""A repair was cut off while its action was sent: was it done? Nothing is sent twice on a guess.

Asked in turn: Azure about the operation, where its address was written down; Azure about the VM, while it says that it
works on it; the node, whose boot id changes with every action that ends in a boot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.workflow.repair_state import Entry

_AT_WORK = ("updating", "creating", "deleting", "migrating")


class Came(Enum):
    """What became of an action. UNTOLD: it may have been done or not."""

    DONE = "done"
    NOT_DONE = "not done"
    UNTOLD = "untold"


def what_came(
    entry: Entry,
    clients: AzureClients | None,
    scale_set: str,
    boot_now: Callable[[], str],
    *,
    stop: threading.Event,
    until: float,
    clock: Callable[[], float],
    pause: Callable[[], None],
) -> Came:
    """Wait for what Azure still works on, then say what is known. boot_now: the node's boot id, "" where it is silent.

    Raises AzureError: also when the operation failed.
    """
    if clients is not None:
        from ndctl.azure.repair import machine_view, operation_ended

        while entry.operation and not stop.is_set() and clock() < until:
            ended = operation_ended(clients, entry.operation)
            if ended:
                return Came.DONE
            if ended is None:
                break
            pause()
        while not stop.is_set() and clock() < until:
            view = machine_view(clients, scale_set, entry.before.instance_id)
            if view is None or view.provisioning not in _AT_WORK:
                break
            pause()
    if stop.is_set():
        return Came.UNTOLD
    boot = boot_now()
    if not boot or not entry.before.boot_id:
        return Came.UNTOLD
    return Came.DONE if boot != entry.before.boot_id else Came.NOT_DONE
