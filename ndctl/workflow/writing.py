"""What every verb that changes a cluster stands in: its locks, its clients, and its audit line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ndctl.azure.clients import AzureClients, connect
from ndctl.workflow.audit import AuditLine, audited
from ndctl.workflow.group_lock import GroupLock
from ndctl.workflow.locks import cluster_lock
from ndctl.workflow.state_dir import cluster_dir

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

_SKEW_TO_TELL_S = 300.0  # beyond it, sign-in itself begins to fail


@dataclass(frozen=True, slots=True)
class Writing:
    """clients: signed in; lock: its `stop` is set when the lock is lost; line: call `line.ended(...)` at the end."""

    clients: AzureClients
    lock: GroupLock
    line: AuditLine

    @property
    def run(self) -> str:
        return self.line.run


@contextmanager
def writing(loaded: Loaded, verb: str, *, break_lock: str = "", say: Callable[[str], None]) -> Iterator[Writing]:
    """Hold the cluster for `verb`. `say`: a line of the story.

    Raises NdctlError: exit 10 when another process or machine holds it, 3 and 4 as `connect` does.
    """
    cluster = loaded.inventory.cluster
    folder = cluster_dir(loaded.inventory, loaded.path)
    with cluster_lock(folder, cluster, verb):
        clients = connect(loaded)
        try:
            with (
                audited(folder, clients, verb=verb, cluster=cluster) as line,
                GroupLock(clients, cluster, verb, break_lock=break_lock) as lock,
            ):
                if abs(clients.clock.offset_s) > _SKEW_TO_TELL_S:
                    say(
                        f"this machine's clock is {_skew(clients.clock.offset_s)} Azure's; Azure's is used for the lock"
                    )
                yield Writing(clients, lock, line)
            if lock.problem:
                say(f"resource group not marked as locked, other machines were not kept out: {lock.problem}")
            if line.unwritten:
                say(f"the end of this change is not in {folder / 'audit.jsonl'}: {line.unwritten}")
            if line.problem:
                kept = "" if line.unwritten else f"audit line kept in {folder} only, "
                say(f"{kept}the resource group was not tagged: {line.problem}")
        finally:
            clients.close()


def _skew(offset_s: float) -> str:
    return f"{abs(offset_s) / 60:.0f} min {'behind' if offset_s > 0 else 'ahead of'}"
