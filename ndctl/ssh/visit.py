"""One visit to one node: a connection, one channel, one script, and what came of it as a NodeAnswer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import paramiko

from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node
from ndctl.ssh import connection
from ndctl.ssh.connection import Session
from ndctl.ssh.deadlines import RUN_DEADLINE, Watch
from ndctl.ssh.script import KILL_AFTER_S, exec_line, new_nonce
from ndctl.ssh.stream import StreamReader
from ndctl.ssh.target import Fault, Target
from ndctl.ssh.tunnel import jump_host_lost

INTERRUPTED = "interrupted"
NODE_DEADLINE = "the time for one node"
# The script's own start and end: probing `timeout`, making and removing its directory.
SCRIPT_OVERHEAD_S = 5.0
_READ_BYTES = 65_536

_BROKEN = (OutcomeKind.CONNECTION_LOST, OutcomeKind.UNREACHABLE, OutcomeKind.TIMED_OUT)

Dial = Callable[[Target, Watch], Any]


def visit(
    node: Node,
    target: Target,
    commands: tuple[Command, ...],
    *,
    dial: Dial,
    watch: Watch,
    grace_s: float,
    node_deadline_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[NodeAnswer, bool]:
    """Ask `commands` (in order) and return (the answer, whether another attempt makes sense). Never raises a Fault.

    dial: gives the connected socket, directly or through jump hosts
    """
    began = clock()
    reader = StreamReader(commands, new_nonce())
    sock: Any = None
    session: Session | None = None
    try:
        sock = dial(target, watch)
        session = connection.log_in(sock, target, watch, clock)
        exit_code = _run_script(session, reader, target, watch, grace_s, began + node_deadline_s, clock)
        outcome = outcome_of_script(reader, exit_code, watch, node)
        passing = False
    except Fault as fault:
        outcome = Outcome(fault.kind, fault.detail, fault.hint)
        passing = fault.passing
    except (paramiko.SSHException, OSError, EOFError) as error:
        kind = OutcomeKind.CONNECTION_LOST if session is not None else OutcomeKind.UNREACHABLE
        outcome = Outcome(kind, f"{target}: {connection.why(error)}")
        passing = session is None
    finally:
        jump_host = jump_host_lost(sock, ask=watch.expired not in ("", INTERRUPTED, RUN_DEADLINE))
        if sock is not None:
            connection.close(session, sock)
    if jump_host and outcome.kind in _BROKEN:
        kind = OutcomeKind.CONNECTION_LOST if session is not None else OutcomeKind.UNREACHABLE
        outcome = Outcome(kind, f"the connection to jump host {jump_host} broke; {outcome.detail}")
        passing = session is None  # else the commands may have begun
    if watch.expired == INTERRUPTED:
        outcome, passing = interrupted(reader), False
    if watch.expired == RUN_DEADLINE:
        answered = f"{len(reader.results)} of {len(reader.commands)} commands answered"
        outcome, passing = Outcome(OutcomeKind.TIMED_OUT, f"{RUN_DEADLINE} was up; {answered}"), False
    watch.close()
    return NodeAnswer(node, with_only_result(outcome, reader.results, commands, clock() - began), reader.results), (
        passing
    )


def _run_script(
    session: Session,
    reader: StreamReader,
    target: Target,
    watch: Watch,
    grace_s: float,
    last: float,
    clock: Callable[[], float],
) -> int | None:
    """Run the script and feed the reader until its end; the exit status if the session ended before that."""
    line, stdin = exec_line(reader.commands, reader.nonce)

    def wait_until(phase: str, at: float) -> None:
        watch.set(*((phase, at) if at < last else (NODE_DEADLINE, last)))

    wait_until("session", clock() + target.channel_s)
    try:
        channel = session.open_session(timeout=target.channel_s + 1)
        # The script sends all its answers by stdout; what start-up files say on stderr is noise in the same stream,
        # so that no second stream can fill up unread.
        channel.set_combine_stderr(True)
        channel.exec_command(line)
    except paramiko.ChannelException as error:
        raise Fault(
            OutcomeKind.CONNECTION_LOST, f"{target} let {target.user} in, but opens no session: {error.text}"
        ) from error
    except (paramiko.SSHException, EOFError) as error:
        if watch.expired:
            raise Fault(OutcomeKind.TIMED_OUT, f"{target} opened no session within {target.channel_s:g} s") from error
        raise
    if stdin:
        channel.sendall(stdin)
        channel.shutdown_write()
    awaited: Command | None = None
    wait_until("script", clock() + SCRIPT_OVERHEAD_S + grace_s + target.channel_s)
    while not reader.done:
        data = channel.recv(_READ_BYTES)
        if not data:
            break
        reader.feed(data)
        current = reader.current
        if current is not awaited:
            # One command at a time has the right to keep us waiting; a slow drip of bytes wins no more time.
            awaited = current
            allowed = time_of(current) + grace_s if current is not None else grace_s
            wait_until("script", clock() + allowed)
    if reader.done or watch.expired:
        return None
    reader.end_of_stream()
    if not session.is_active():
        return None
    code = channel.recv_exit_status()
    return code if code >= 0 else None


def time_of(command: Command) -> float:
    """The longest a command can take on the node, the hand over to sudo included."""
    return command.timeout_s + KILL_AFTER_S + (4 if command.root else 0)


def outcome_of_script(reader: StreamReader, exit_code: int | None, watch: Watch, node: Node) -> Outcome:
    """What came of a script whose session is over. exit_code: the session's, None when it broke."""
    if reader.finished:
        return Outcome(OutcomeKind.OK)
    if reader.refusal:
        return Outcome(OutcomeKind.OK, reader.refusal)
    answered = f"{len(reader.results)} of {len(reader.commands)} commands answered"
    during = f" during {reader.current.id}" if reader.current is not None else ""
    if reader.garbled:
        return Outcome(OutcomeKind.CONNECTION_LOST, f"{reader.garbled}; {answered}")
    if watch.expired == NODE_DEADLINE:
        return Outcome(
            OutcomeKind.TIMED_OUT,
            f"{node.name} used up the time for one node{during}; {answered}",
            "it is slow in everything: look at its load and its disks, or ask it less at once",
        )
    if watch.expired:
        return Outcome(
            OutcomeKind.TIMED_OUT,
            f"{node.name} went silent{during or ' before the script began'}; {answered}",
            "the node may be frozen: look at its console and its host's health",
        )
    if not reader.begun:
        said = f": {reader.noise[:300]}" if reader.noise else ""
        code = f" with exit code {exit_code}" if exit_code is not None else ""
        return Outcome(
            OutcomeKind.CONNECTION_LOST,
            f"{node.name} ended the session{code} before the script began{said}",
            "can the login user run 'sh -c true' there? see its shell and ForceCommand",
            exit_code=exit_code,
        )
    return Outcome(
        OutcomeKind.CONNECTION_LOST,
        f"the connection to {node.name} broke{during}; {answered}",
        "it rebooted, or its SSH server was killed: see its uptime and kernel log",
    )


def interrupted(reader: StreamReader) -> Outcome:
    """Of a node that was cut because the caller stopped."""
    return Outcome(
        OutcomeKind.INTERRUPTED, f"stopped from here; {len(reader.results)} of {len(reader.commands)} commands answered"
    )


def with_only_result(
    outcome: Outcome, results: Mapping[str, CommandResult], commands: tuple[Command, ...], seconds: float
) -> Outcome:
    """An Outcome carries the whole stream of a single command."""
    only = results.get(commands[0].id) if len(commands) == 1 else None
    return Outcome(
        outcome.kind,
        outcome.detail,
        outcome.hint,
        exit_code=only.exit_code if only else outcome.exit_code,
        stdout=only.stdout if only else "",
        stderr=only.stderr if only else "",
        seconds=round(seconds, 3),
        truncated=only.truncated if only else False,
    )
