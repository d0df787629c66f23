"""One shell command on chosen nodes: each is asked once, over the connection that validation uses too."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ndctl.inventory.loader import Loaded
from ndctl.model.answers import Command, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.execution import Execution, Said
from ndctl.model.places import Cluster, Node
from ndctl.workflow.select import Selected
from ndctl.workflow.transport import Transport, open_transport, remarks_told

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

MOST_KEPT = 256_000_000  # bytes of output of all nodes together
CAP_BYTES = 1_000_000  # of each stream of one node
LEAST_CAP_BYTES = 64_000
LONGEST_S = 1_700.0  # what a node may take in all is bounded to half an hour
_COMMAND = "exec"
_NAMES = "own-names"
# What a node calls itself, so that its output can be compared with others'; the same nodes may say it in other words.
_WHO_ARE_YOU = Command(_NAMES, "uname -n; hostname -I 2>/dev/null; true", timeout_s=5, cap_bytes=16_000, order=-1)
_GONE = Outcome(
    OutcomeKind.UNREACHABLE, "there is no such node", "not deployed, deallocated or deleted: ndctl nodes INVENTORY"
)

Stoppable = Callable[[Callable[[], None]], "AbstractContextManager[object]"]
"""Given what stops the asking, a context in which a person may do so."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to run. timeout_s: of each node's command; root: through sudo; own_names: ask nodes what they are called."""

    command: str
    timeout_s: float = 60.0
    fanout: int = 64
    root: bool = False
    own_names: bool = False


@contextmanager
def _unstoppable(_: Callable[[], None]) -> Iterator[None]:
    yield


def refuse_no_command(command: str) -> None:
    """Raises NdctlError exit 2 for what no shell could be given."""
    if not command.strip():
        why = "there is no command to run"
    elif not command.isprintable() and any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in command):
        why = "the command holds bytes that are no UTF-8 text"
    else:
        return
    raise NdctlError(
        "exec.usage",
        why,
        hint="ndctl exec INVENTORY -- uname -r; a pipe in quotes: -- 'dmesg | tail'",
        exit_code=ExitCode.USAGE,
    )


def execute(
    loaded: Loaded,
    selected: Selected,
    order: Order,
    *,
    on_event: EventSink = ignore_events,
    open_transport: Callable[[Loaded, Cluster, int], Transport] = open_transport,
    stoppable: Stoppable = _unstoppable,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Execution:
    """Run `order` on the selected nodes; every one of them is in the answer, those also that are not there.

    Raises NdctlError for what makes an answer impossible (keys, settings).
    """
    refuse_no_command(order.command)
    started = now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    cluster = selected.cluster
    cap = max(LEAST_CAP_BYTES, min(CAP_BYTES, MOST_KEPT // max(1, len(cluster.nodes))))
    wanted = Command(_COMMAND, _as_command(order.command), timeout_s=order.timeout_s, cap_bytes=cap, root=order.root)
    commands = [_WHO_ARE_YOU, wanted] if order.own_names else [wanted]
    keeper = _Keeper(cluster, wanted, on_event)
    with (
        closing(open_transport(loaded, cluster, order.fanout)) as transport,
        remarks_told(transport, cluster.name, on_event),
        stoppable(transport.stop),
    ):
        transport.collect(dict.fromkeys(cluster.nodes, commands), keeper.keep)
    missing = [Node(name, name.partition("-")[0]) for name in selected.absent]
    for node in missing:
        keeper.keep(NodeAnswer(node, _GONE))
    order_of = {node.name: place for place, node in enumerate([*cluster.nodes, *missing])}
    said = sorted(keeper.said, key=lambda one: (one.rack, order_of[one.name]))
    return Execution(
        cluster=cluster.name,
        inventory=str(loaded.path),
        command=order.command,
        root=order.root,
        timeout_s=order.timeout_s,
        cap_bytes=cap,
        started=started,
        said=tuple(said),
        interrupted=any(one.outcome == OutcomeKind.INTERRUPTED for one in said),
    )


def _as_command(text: str) -> str:
    """The blank keeps the nodes' `sh -c` from taking a command that begins with a dash for options of its own."""
    return f" {text}" if text.startswith(("-", "+")) else text


class _Keeper:
    """Takes answers as they come. Most nodes say the same: one text is kept once."""

    def __init__(self, cluster: Cluster, command: Command, on_event: EventSink) -> None:
        self.said: list[Said] = []
        self._cluster = cluster
        self._command = command
        self._on_event = on_event
        self._texts: dict[str, str] = {}
        self._expected = {rack.name: len(rack.nodes) for rack in cluster.racks}
        self._answered: Counter[str] = Counter()
        self._lock = threading.Lock()

    def keep(self, answer: NodeAnswer) -> None:
        one = said_by(answer, self._command)
        with self._lock:
            out, err = (self._texts.setdefault(text, text) for text in (one.stdout, one.stderr))
            self.said.append(replace(one, stdout=out, stderr=err))
            self._answered[one.rack] += 1
            count, expected = self._answered[one.rack], self._expected.get(one.rack, 0)
        self._on_event(
            Event(
                "collect",
                "done" if count >= expected else "running",
                cluster=self._cluster.name,
                rack=one.rack,
                message=f"{count} of {expected} nodes",
            )
        )


def said_by(answer: NodeAnswer, command: Command) -> Said:
    """A command that ran into its deadline is no answer, however well the connection went."""
    node, outcome = answer.node, answer.outcome
    result = answer.results.get(command.id)
    names, addresses = _own_names(answer)
    plain = Said(node.name, node.rack, node.address, outcome.kind.value, outcome.detail, outcome.hint)
    plain = replace(plain, seconds=outcome.seconds, host_names=names, addresses=addresses)
    if result is None:
        if outcome.ok:
            detail = outcome.detail or "the command was not run"
            return replace(plain, outcome=OutcomeKind.CONNECTION_LOST.value, detail=detail)
        return plain
    told = replace(
        plain, stdout=result.stdout, stderr=result.stderr, seconds=result.seconds, truncated=result.truncated
    )
    if result.timed_out or result.exit_code is None:
        detail = f"the command did not end within {command.timeout_s:g} s and was ended"
        return replace(told, outcome=OutcomeKind.TIMED_OUT.value, detail=detail, hint="--timeout SECONDS gives it more")
    # Whatever befell the connection afterwards, the command's answer is whole.
    return replace(told, outcome=OutcomeKind.OK.value, detail="", hint="", exit_code=result.exit_code)


def _own_names(answer: NodeAnswer) -> tuple[tuple[str, ...], tuple[str, ...]]:
    result = answer.results.get(_NAMES)
    lines = result.stdout.splitlines() if result is not None and result.exit_code == 0 else []
    full = lines[0].strip() if lines else ""
    names = tuple(dict.fromkeys(name for name in (full, full.partition(".")[0]) if name))
    return names, tuple(dict.fromkeys(word for line in lines[1:] for word in line.split()))


def learn_keys(loaded: Loaded, cluster: Cluster) -> Mapping[str, str]:
    """Host keys of nodes that are not known yet, through Azure; node -> why it could not be learned."""
    from ndctl.workflow.jump_hosts import learn_jump_host
    from ndctl.workflow.nodes import learn_host_keys

    problems = learn_host_keys(loaded, cluster)
    learn_jump_host(loaded, relearn=False)
    return problems
