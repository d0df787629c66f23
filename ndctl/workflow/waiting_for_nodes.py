"""After a deployment: wait until the nodes let somebody in, or their time is over. Judges nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.errors import NdctlError
from ndctl.model.events import Event, EventSink
from ndctl.model.places import Cluster, Node
from ndctl.workflow.jump_hosts import learn_jump_host
from ndctl.workflow.nodes import discover, learn_host_keys
from ndctl.workflow.transport import open_transport

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

_EVERY_S = 15.0
# Ready is who lets us in and runs a command: a booting VM listens earlier than that.
# Such a VM is asked, and never a reason to wait: Azure says that it did not come, or is on its way out.
_NOT_COMING = ("failed", "stopped", "deallocat", "delet", "canceled")
_READY = Command("ready", "true", timeout_s=10, cap_bytes=1_000)


def wait_for_nodes(
    loaded: Loaded,
    fanout: int,
    within_s: float,
    *,
    on_event: EventSink,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[int, int, str]:
    """(nodes that exist, nodes that answer, why one does not) when all that may come answer, or the time is over.

    Raises NdctlError as discovery does (3 identity, 4 unreachable).
    """
    until = clock() + within_s
    ready: set[str] = set()
    cluster = discover(loaded)
    while True:
        missing, why = _ask(loaded, cluster, fanout, ready)
        left = until - clock()
        if not any(_may_come(node) for node in missing) or left <= 0:
            return len(cluster.nodes), len(ready), why
        message = f"{len(ready)} of {len(cluster.nodes)} nodes answer; asking again for up to {left:.0f} s"
        on_event(Event("collect", "waiting", cluster=cluster.name, step="wait", message=message))
        sleep(min(_EVERY_S, left))
        cluster = discover(loaded)


def _may_come(node: Node) -> bool:
    return not node.state.startswith(_NOT_COMING)


def _ask(loaded: Loaded, cluster: Cluster, fanout: int, ready: set[str]) -> tuple[list[Node], str]:
    """Ask those that were not ready yet; who still is not, and one reason."""
    waiting = [node for node in cluster.nodes if node.name not in ready]
    if not waiting:
        return [], ""
    reasons: list[str] = []

    def keep(answer: NodeAnswer) -> None:
        result = answer.results.get(_READY.id)
        if answer.outcome.ok and result is not None and result.exit_code == 0:
            ready.add(answer.node.name)
        else:
            reasons.append(f"{answer.node.name}: {answer.outcome.kind.value} {answer.outcome.detail}".strip())

    try:
        learn_jump_host(loaded)
        problems = learn_host_keys(loaded, cluster)
        with closing(open_transport(loaded, cluster, fanout)) as transport:
            transport.collect({node: [_READY] for node in waiting}, keep)
    except NdctlError as error:
        return waiting, error.message
    reasons += [f"{node}: host key not learned: {said}" for node, said in sorted(problems.items())]
    return [node for node in waiting if node.name not in ready], (sorted(reasons) or [""])[0]
