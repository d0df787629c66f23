"""What a repair stands in: the cluster's locks and audit line as every verb that changes something; for static racks
the lock of this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ndctl.workflow.locks import cluster_lock
from ndctl.workflow.state_dir import cluster_dir

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.inventory.loader import Loaded


@dataclass(frozen=True, slots=True)
class Held:
    """clients: None off Azure; stop: set when the lock is lost; ended(result, exit code): call it at the end;
    lost_to(): who has taken the lock meanwhile, "" for nobody."""

    clients: AzureClients | None
    stop: threading.Event
    ended: Callable[[str, int], None]
    lost_to: Callable[[], str] = str


@contextmanager
def held(loaded: Loaded, *, break_lock: str, look_only: bool, say: Callable[[str], None]) -> Iterator[Held]:
    """Hold the cluster for a repair; with `look_only` hold nothing. Raises NdctlError exit 10 when another has it."""
    inventory = loaded.inventory
    if inventory.static is not None:
        folder = cluster_dir(inventory, loaded.path)
        if look_only:
            yield Held(None, threading.Event(), _nothing)
            return
        with cluster_lock(folder, inventory.cluster, "repair"):
            yield Held(None, threading.Event(), _nothing)
        return
    if look_only:
        from ndctl.azure.clients import connect

        with closing(connect(loaded)) as clients:
            yield Held(clients, threading.Event(), _nothing)
        return
    from ndctl.workflow.writing import writing

    with writing(loaded, "repair", break_lock=break_lock, say=say) as one:
        yield Held(one.clients, one.lock.stop, one.line.ended, lambda: one.lock.lost_to)


def _nothing(result: str, exit_code: int) -> None:
    """Without Azure there is no group to tag; the repairs file of the state folder says who did what."""
