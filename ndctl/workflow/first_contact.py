"""First contact with a real rack: ask what no document settles, keep what was answered. It only reads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any

from ndctl.checks.pages import filled
from ndctl.inventory.proven import ANSWERS_FILE, ANSWERS_SCHEMA, Proven, answers
from ndctl.inventory.proven import told as as_json
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.first_contact import FactNow, Found, Standing
from ndctl.model.jsonable import dumps
from ndctl.model.places import Cluster, Node
from ndctl.profiles.open_facts import Answer, OpenFact, fact, figure, open_facts
from ndctl.workflow.locks import this_holder
from ndctl.workflow.state_dir import cluster_dir, write_private
from ndctl.workflow.transport import Transport, open_transport

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

NODES_OF_A_RACK = 2  # a fact is one of the size, not of a node
_NO_NODE = Found(None, why="no node was asked")


@dataclass(frozen=True, slots=True)
class Walked:
    """nodes: names of those asked; answered: how many of them did; refused: why racks and Azure could not be asked."""

    facts: tuple[FactNow, ...]
    nodes: tuple[str, ...] = ()
    answered: int = 0
    refused: NdctlError | None = None

    @property
    def exit_code(self) -> ExitCode:
        if self.refused is not None:
            return self.refused.exit_code
        return ExitCode.INCOMPLETE if self.nodes and not self.answered else ExitCode.OK


class Kept:
    """The answers of one cluster, in its state folder."""

    def __init__(self, loaded: Loaded, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._folder = cluster_dir(loaded.inventory, loaded.path)
        self._now = now
        self.answers = answers(self._folder)

    def answer(self, told: Sequence[str]) -> None:
        """ID=VALUE each; ID= takes an answer back. Raises NdctlError (exit 2), and nothing is kept then."""
        changed = dict(self.answers)
        for one in told:
            name, equals, text = one.partition("=")
            asked = fact(name.strip())
            if not equals:
                raise NdctlError(
                    "first-contact.value", f"--answer {one}: there is no value",
                    hint=f"--answer {asked.id}=VALUE ({asked.wanted}); --answer {asked.id}= takes an answer back",
                    exit_code=ExitCode.USAGE,
                )  # fmt: skip
            if not text.strip():
                changed.pop(asked.id, None)
            else:
                changed[asked.id] = Proven(asked.read(text), "answered", self._today(), this_holder())
        self._write(changed)

    def confirm(self, name: str, value: Answer, by: str) -> None:
        self._write({**self.answers, name: Proven(value, "found", self._today(), by)})

    def _today(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%d")

    def _write(self, changed: Mapping[str, Proven]) -> None:
        if changed == self.answers:
            return
        self.answers = dict(changed)
        write_private(
            self._folder / ANSWERS_FILE, dumps({"schema": ANSWERS_SCHEMA, "answers": as_json(changed)}) + "\n"
        )


def first_contact(
    loaded: Loaded,
    kept: Kept,
    *,
    ask: bool = True,
    fanout: int = 64,
    on_event: EventSink = ignore_events,
    open_transport: Callable[[Loaded, Cluster, int], Transport] = open_transport,
) -> Walked:
    """What racks confirm is kept; what differs is for a person.

    Where the cluster cannot be asked its facts stay as they are, not asked, and `refused` is the reason.
    """
    static = loaded.inventory.static is not None
    facts = [one for one in open_facts().values() if one.applies(loaded.profile, static)]
    told: dict[str, Found] = {}
    nodes: tuple[str, ...] = ()
    answered = 0
    refused = None
    if ask:
        try:
            replies = _asked(loaded, facts, fanout, on_event, open_transport)
            nodes = tuple(node.name for node in replies)
            answered = sum(one.outcome.ok for one in replies.values())
            told = {one.id: _told(one, replies) for one in facts if one.ask is not None}
            told |= _of_azure(loaded, [one for one in facts if one.arm is not None])
        except NdctlError as error:
            refused = error  # told once, as the error; a fact was just not asked
            asked = [one for one in facts if one.ask is not None or one.arm is not None]
            told = {one.id: Found(None, why="not asked") for one in asked} | told
    now = tuple(_now(loaded, one, told.get(one.id, _unasked(one, ask)), kept) for one in facts)
    return Walked(now, nodes, answered, refused)


def _unasked(one: OpenFact, ask: bool) -> Found:
    if one.ask is None and one.arm is None:
        return Found(None, why="ndctl cannot ask this by itself")
    return _NO_NODE if ask else Found(None, why="not asked")


def _asked(
    loaded: Loaded,
    facts: Sequence[OpenFact],
    fanout: int,
    on_event: EventSink,
    open_transport: Callable[[Loaded, Cluster, int], Transport],
) -> Mapping[Node, NodeAnswer]:
    from ndctl.workflow.jump_hosts import learn_jump_host
    from ndctl.workflow.named_nodes import part_of
    from ndctl.workflow.nodes import discover, learn_host_keys

    whole = discover(loaded)
    chosen = [node for rack in whole.racks for node in [n for n in rack.nodes if n.address][:NODES_OF_A_RACK]]
    if not chosen:
        return {}
    learn_host_keys(loaded, part_of(whole, chosen))
    learn_jump_host(loaded)
    commands = [Command(one.id, one.ask.shell, timeout_s=20, cap_bytes=100_000) for one in facts if one.ask]
    on_event(
        Event("collect", "started", cluster=whole.name, message=f"asking {len(chosen)} nodes, {len(commands)} facts")
    )
    with closing(open_transport(loaded, whole, fanout)) as transport:
        return transport.ask(dict.fromkeys(chosen, commands))


def _told(one: OpenFact, replies: Mapping[Node, NodeAnswer]) -> Found:
    """What the nodes agree on. A node that said nothing usable is counted, and counts for nothing."""
    assert one.ask is not None
    if not replies:
        return _NO_NODE
    pattern = re.compile(one.ask.finds, re.MULTILINE | re.IGNORECASE)
    by_node: dict[Node, list[str]] = {}
    for node, reply in replies.items():
        result = reply.results.get(one.id)
        text = result.stdout if result is not None and not result.timed_out and not result.truncated else ""
        if values := pattern.findall(text):
            by_node[node] = values
    if not by_node:
        return Found(None, why=f"none of {len(replies)} nodes told it")
    if one.compares == "racks":
        return _common(by_node)
    values = [_value(one, word) for words in by_node.values() for word in words]
    counted = ", ".join(f"{count} × {_word(value)}" for value, count in Counter(values).most_common(4))
    told = f"{counted}, on {len(by_node)} of {len(replies)} nodes"
    middle: Answer = median(values) if one.kind == "number" else values[0]
    if any(not _same(one, value, middle) for value in values):
        return Found(None, told, "the nodes do not agree")
    return Found(middle, told)


def _common(by_node: Mapping[Node, Sequence[str]]) -> Found:
    racks: dict[str, set[str]] = {}
    for node, values in by_node.items():
        keys = {value.lower() for value in values} - {"0xffff"}  # the default partition says nothing
        racks[node.rack] = racks.get(node.rack, keys) & keys
    told = "; ".join(f"{rack}: {', '.join(sorted(keys)) or 'none'}" for rack, keys in sorted(racks.items())[:4])
    if len(racks) < 2:
        return Found(None, told, "two racks are needed to compare")
    return Found(bool(set.intersection(*racks.values())), told)


def _of_azure(loaded: Loaded, facts: Sequence[OpenFact]) -> dict[str, Found]:
    if not facts:
        return {}
    from ndctl.azure.clients import connect
    from ndctl.azure.placement import single_placement_groups

    clients = connect(loaded)
    try:
        racks = single_placement_groups(clients, loaded.inventory.cluster)
    finally:
        clients.close()
    counted = Counter(racks.values())
    told = ", ".join(
        f"{_word(value)}, on {count} scale set{'s' if count > 1 else ''}" for value, count in counted.most_common()
    )
    if len(counted) == 1:
        return {one.id: Found(next(iter(counted)), told) for one in facts}
    why = "scale sets differ" if counted else "Azure has deployed no scale set of this cluster yet"
    return {one.id: Found(None, told, why) for one in facts}


def _now(loaded: Loaded, one: OpenFact, found: Found, kept: Kept) -> FactNow:
    standing = Standing.OPEN
    proven = kept.answers.get(one.id)
    by_person = proven is not None and proven.how == "answered"
    # The profile of `loaded` may hold an earlier answer already: what was found confirms that, or the profile's own.
    known = figure(loaded.profile, one.sets) if one.sets else None
    against: Any = proven.value if proven is not None else known.value if known is not None else None
    if found.value is not None and against is None and not one.sets:
        kept.confirm(one.id, found.value, found.told)
        proven, against = kept.answers[one.id], found.value
    if found.value is not None and against is not None:
        same = _same(one, found.value, against)
        standing = (Standing.ANSWERED if by_person else Standing.CONFIRMED) if same else Standing.DIFFERS
        if same and proven is None:
            kept.confirm(one.id, found.value, found.told)
    elif proven is not None:
        standing = Standing.ANSWERED if by_person else Standing.CONFIRMED
    proven = kept.answers.get(one.id)
    step = ""
    if standing is Standing.DIFFERS and found.value is not None:
        step = f"if the racks are right: ndctl first-contact {loaded.path} --answer {one.id}={_word(found.value)}"
    elif standing is Standing.OPEN:
        step = f"{one.proves}; then: ndctl first-contact {loaded.path} --answer {one.id}=…"
    said = f"{proven.said}, {proven.date}" if proven is not None else ""
    in_force = _word(proven.value) if proven is not None else filled(one.fallback, loaded.profile)
    return FactNow(
        one.id, one.question, one.why, one.source, one.proves, standing, in_force, found,
        proven.value if proven is not None else None, said, one.sets or "", one.unwired, step,
    )  # fmt: skip


def _value(one: OpenFact, word: str) -> Answer:
    return word.lower() == "yes" if one.kind == "yes-no" else float(word)


def _same(one: OpenFact, value: Answer, other: Answer) -> bool:
    if one.kind == "yes-no":
        return bool(value) is bool(other)
    return abs(float(value) - float(other)) <= one.spread * abs(float(other))


def _word(value: Answer) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.10g}"
