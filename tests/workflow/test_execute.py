"""`workflow.execute` over a transport that answers by hand: every chosen node is in the answer, with its own fate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ndctl.inventory.loader import Loaded, load
from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import Event
from ndctl.model.places import Cluster, Node, Rack
from ndctl.workflow.execute import (
    CAP_BYTES,
    LEAST_CAP_BYTES,
    MOST_KEPT,
    Order,
    execute,
    refuse_no_command,
    said_by,
)
from ndctl.workflow.select import Selected

COMMAND = Command("exec", "true", timeout_s=60)
OK = Outcome(OutcomeKind.OK)


def rack(number: int, count: int) -> Rack:
    name = f"rack{number:02d}"
    nodes = tuple(Node(f"{name}-n{at:02d}", name, f"10.0.{number}.{at}") for at in range(1, count + 1))
    return Rack(name, number, count, nodes)


class Scripted:
    """Answers each node by `answer`, last node first; keeps what was asked."""

    user = "azureuser"

    def __init__(self, answer: Callable[[Node], NodeAnswer]) -> None:
        self.answer = answer
        self.asked: dict[Node, list[Command]] = {}
        self.fanout = 0
        self.stopped = self.closed = False

    def open(self, loaded: Loaded, cluster: Cluster, fanout: int) -> Scripted:
        self.fanout = fanout
        return self

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        return {node: self.answer(node) for node in requests}

    def collect(self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None]) -> None:
        self.asked = {node: list(commands) for node, commands in requests.items()}
        for node in reversed(list(requests)):
            kind = OutcomeKind.INTERRUPTED
            on_answer(NodeAnswer(node, Outcome(kind, "stopped")) if self.stopped else self.answer(node))

    def host_key_lines(self, node: Node) -> tuple[str, ...]:
        return ()

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


def fine(node: Node) -> NodeAnswer:
    return NodeAnswer(node, OK, {"exec": CommandResult("exec", 0, "ok\n")})


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    path = tmp_path / "lab.yaml"
    path.write_text("cluster: lab\nprofile: gb300\nprotect: true\nstatic:\n  - {rack: 1, nodes: [127.0.0.1]}\n")
    return load(path)


def chosen(*racks: Rack, absent: tuple[str, ...] = ()) -> Selected:
    return Selected(Cluster("lab", racks), of=99, absent=absent)


def test_every_node_is_in_the_answer_in_the_order_of_names(loaded: Loaded) -> None:
    transport = Scripted(fine)
    events: list[Event] = []
    picked = chosen(rack(1, 3), rack(2, 2), absent=("rack01-n04",))
    order = Order("hostname", timeout_s=7, fanout=5, root=True)
    done = execute(loaded, picked, order, open_transport=transport.open, on_event=events.append)
    told = [(one.name, one.outcome, one.exit_code) for one in done.said]
    assert told == [
        ("rack01-n01", "ok", 0),
        ("rack01-n02", "ok", 0),
        ("rack01-n03", "ok", 0),
        ("rack01-n04", "unreachable", None),
        ("rack02-n01", "ok", 0),
        ("rack02-n02", "ok", 0),
    ]
    assert done.said[3].detail == "there is no such node"
    assert done.exit_code is ExitCode.INCOMPLETE
    assert (transport.fanout, transport.closed) == (5, True)
    for (command,) in transport.asked.values():
        assert (command.shell, command.timeout_s, command.root) == ("hostname", 7, True)
    assert [one.message for one in events if one.rack == "rack02"] == ["1 of 2 nodes", "2 of 2 nodes"]


@pytest.mark.parametrize(("typed", "asked"), [("-x 1", " -x 1"), ("+x", " +x"), ("ls -l", "ls -l")])
def test_a_command_that_begins_with_a_dash_is_no_option_of_the_shell(loaded: Loaded, typed: str, asked: str) -> None:
    transport = Scripted(fine)
    done = execute(loaded, chosen(rack(1, 1)), Order(typed), open_transport=transport.open)
    assert [one.shell for commands in transport.asked.values() for one in commands] == [asked]
    assert done.command == typed


def test_memory_is_bounded_by_the_number_of_nodes(loaded: Loaded) -> None:
    caps = {}
    for count in (1, 1_000, 20_000):
        transport = Scripted(fine)
        done = execute(loaded, chosen(rack(1, count)), Order("true"), open_transport=transport.open)
        assert {one.cap_bytes for asked in transport.asked.values() for one in asked} == {done.cap_bytes}
        caps[count] = done.cap_bytes
    assert caps == {1: CAP_BYTES, 1_000: MOST_KEPT // 1_000, 20_000: LEAST_CAP_BYTES}


def test_equal_texts_are_kept_once(loaded: Loaded) -> None:
    def answer(node: Node) -> NodeAnswer:
        return NodeAnswer(node, OK, {"exec": CommandResult("exec", 0, "".join(["long ", "text"]))})

    done = execute(loaded, chosen(rack(1, 9)), Order("true"), open_transport=Scripted(answer).open)
    assert len({id(one.stdout) for one in done.said}) == 1


def test_nodes_are_asked_for_their_own_names_only_where_they_are_needed(loaded: Loaded) -> None:
    names = CommandResult("own-names", 0, "vm-000003.internal\n10.0.0.7 fd00::7 \n")

    def answer(node: Node) -> NodeAnswer:
        return NodeAnswer(node, OK, {"exec": CommandResult("exec", 0), "own-names": names})

    transport = Scripted(answer)
    done = execute(loaded, chosen(rack(1, 1)), Order("true", own_names=True), open_transport=transport.open)
    assert done.said[0].host_names == ("vm-000003.internal", "vm-000003")
    assert done.said[0].addresses == ("10.0.0.7", "fd00::7")
    assert [[one.order < 0 for one in asked] for asked in transport.asked.values()] == [[True, False]]


def test_a_stop_is_told(loaded: Loaded) -> None:
    @contextmanager
    def at_once(stop: Callable[[], None]) -> Iterator[None]:
        stop()
        yield

    done = execute(loaded, chosen(rack(1, 2)), Order("true"), open_transport=Scripted(fine).open, stoppable=at_once)
    assert [one.outcome for one in done.said] == ["interrupted"] * 2
    assert done.interrupted and done.exit_code is ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("outcome", "result", "told", "detail"),
    [
        (OK, CommandResult("exec", 3, "x"), ("ok", 3), ""),
        # it ended with 124 by itself, long before the deadline
        (OK, CommandResult("exec", 124), ("ok", 124), ""),
        (OK, CommandResult("exec", None, "x", timed_out=True), ("timed-out", None), "did not end within 60 s"),
        # the connection broke behind the answer
        (Outcome(OutcomeKind.CONNECTION_LOST, "broke"), CommandResult("exec", 0), ("ok", 0), ""),
        (Outcome(OutcomeKind.CONNECTION_LOST, "broke"), None, ("connection-lost", None), "broke"),
        (Outcome(OutcomeKind.REFUSED, "refused"), None, ("refused", None), "refused"),
        # no `timeout` on the node: nothing was run
        (Outcome(OutcomeKind.OK, "no usable timeout"), None, ("connection-lost", None), "no usable timeout"),
        (OK, None, ("connection-lost", None), "the command was not run"),
    ],
)
def test_what_counts_as_an_answer(
    outcome: Outcome, result: CommandResult | None, told: tuple[str, int | None], detail: str
) -> None:
    node = rack(1, 1).nodes[0]
    one = said_by(NodeAnswer(node, outcome, {"exec": result} if result else {}), COMMAND)
    assert (one.outcome, one.exit_code) == told
    assert detail in one.detail and bool(detail) == bool(one.detail)


@pytest.mark.parametrize("command", ["", "  \n", "echo \udcff"])
def test_what_is_no_command_is_refused(command: str, loaded: Loaded) -> None:
    transport = Scripted(fine)
    with pytest.raises(NdctlError) as refused:
        execute(loaded, chosen(rack(1, 1)), Order(command), open_transport=transport.open)
    assert refused.value.exit_code is ExitCode.USAGE and transport.asked == {}


@pytest.mark.parametrize("command", ["uname -r", "a\nb\tc", "printf '\x1b[31m'", "echo ünicode"])
def test_what_is_one(command: str) -> None:
    refuse_no_command(command)
