"""The racks of a repair are kept from others' active tests, by the same lease on the nodes that those take.

One lease for all nodes that answer, renewed while the repair lasts. Its token stays the same for one user and state
folder, so that a repair that was killed takes its own lease again; the cluster's lock keeps two of those apart.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ndctl.jobs.lease import Lease, give_back, holder_in, renew, take
from ndctl.model.answers import NodeAnswer
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Cluster, Node
from ndctl.workflow.locks import this_holder
from ndctl.workflow.transport import Transport

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

LIFETIME_S = 1800
_CONNECTIONS = 32


def lease_token(folder: Path) -> str:
    return f"repair-{uuid.uuid5(uuid.NAMESPACE_URL, f'{this_holder()}|{folder}')}"


def testers(answers: Mapping[Node, NodeAnswer], token: str) -> dict[str, str]:
    """Node -> who tests there just now, of the nodes that were asked `LOOK`."""
    told = {node.name: holder_in(answer, token) for node, answer in answers.items()}
    return {name: who for name, who in told.items() if who}


def refuse_tested(held: Mapping[str, str]) -> None:
    """Raises NdctlError (exit 4) that names who holds a rack."""
    if held:
        name, who = next(iter(sorted(held.items())))
        raise NdctlError(
            "repair.tested",
            f"an active test holds the rack: {who} (on {name})",
            hint="wait until it has ended, or --force, which disturbs it",
            exit_code=ExitCode.PREFLIGHT,
        )


class Stopped(KeyboardInterrupt):
    """The first Ctrl-C: there is time to give leases back."""


class RackLease:
    """`with RackLease(...) as lease:` holds the nodes; `release()` gives them back before racks are tested again.

    Raises NdctlError (exit 4) when another test has come first, unless `force`. `say`: what could not be held.
    """

    def __init__(
        self,
        loaded: Loaded,
        nodes: Sequence[Node],
        doing: str,
        token: str,
        open_transport: Callable[[Loaded, Cluster, int], Transport],
        say: Callable[[str], None],
        *,
        force: bool,
    ) -> None:
        self._loaded, self._nodes, self._open = loaded, tuple(nodes), open_transport
        self._holder, self._token, self._say, self._force = f"{this_holder()}, {doing}", token, say, force
        self._cluster = Cluster(loaded.inventory.cluster)
        self._lease: Lease | None = None
        self._ended = threading.Event()

    def __enter__(self) -> RackLease:
        if not self._nodes:
            return self
        with closing(self._open(self._loaded, self._cluster, _CONNECTIONS)) as transport:
            lease = take(transport, self._nodes, self._holder, self._token, LIFETIME_S)
        if lease.taken:
            self._lease = lease
            threading.Thread(target=self._keep, args=(lease,), name="rack-lease", daemon=True).start()
        elif lease.held_by and not self._force:
            refuse_tested({lease.held_by.rpartition("(on ")[2].rstrip(")"): lease.held_by.rpartition(" (on ")[0]})
        else:
            self._say(f"others' active tests are not kept out of the rack: {lease.held_by or lease.problem}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or not issubclass(kind, KeyboardInterrupt) or issubclass(kind, Stopped):
            self.release()
        self._ended.set()

    def also(self, nodes: Sequence[Node]) -> None:
        """Nodes to give back as well: who was silent at first may hold the lease of a repair that was cut off."""
        if self._lease is not None:
            self._lease = replace(
                self._lease, nodes=tuple({node.name: node for node in (*self._lease.nodes, *nodes)}.values())
            )

    def release(self) -> None:
        """A node that does not answer frees itself when the lease's time is over, or with its next boot."""
        self._ended.set()
        lease, self._lease = self._lease, None
        if lease is not None:
            with closing(self._open(self._loaded, self._cluster, _CONNECTIONS)) as transport:
                give_back(transport, lease)

    def _keep(self, lease: Lease) -> None:
        while not self._ended.wait(LIFETIME_S / 3):
            with closing(self._open(self._loaded, self._cluster, _CONNECTIONS)) as transport:
                renew(transport, lease, self._holder, LIFETIME_S)
