"""One pass over a rack through one head: a connection, one channel, and what each peer answered, as it comes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import paramiko

from ndctl.model.answers import NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node
from ndctl.ssh import connection
from ndctl.ssh.connection import Fault, Session, Target
from ndctl.ssh.deadlines import Watch
from ndctl.ssh.relay_agent import LoginAgent
from ndctl.ssh.relay_frames import Frame, FrameKind, FrameReader
from ndctl.ssh.relay_links import HeadSocket, Inflow, serve_agent
from ndctl.ssh.relay_loop import NO_SSH
from ndctl.ssh.relay_order import Terms, login_s, order_of, outer_s
from ndctl.ssh.relay_peer import HEAD, STOPPED, Peer, outcome_of_peer, stopped
from ndctl.ssh.relay_script import (
    NO_AGENT,
    NO_KEY,
    SLOW_S,
    TICK_S,
    TICKS_A_BEAT,
    relay_line,
    relay_text,
)
from ndctl.ssh.script import new_nonce
from ndctl.ssh.visit import SCRIPT_OVERHEAD_S, outcome_of_script, time_of, with_only_result

_REFUSALS = {
    NO_AGENT: "its sshd forbids agent forwarding",
    NO_SSH: "it has no ssh program",
    NO_KEY: "the ephemeral key is gone",
    "no-timeout": "it has no usable 'timeout' (GNU coreutils)",
    "no-directory": "no temporary directory could be made on it",
}


@dataclass(slots=True)
class Ended:
    """What is left of a pass when it is over.

    fault:     the head could not be logged in to
    refused:   why the head relays nothing; its peers were not asked
    lost:      the head was lost on the way, in words
    admitted:  peers that said they admit the ephemeral key
    """

    fault: Fault | None = None
    refused: str = ""
    no_key: bool = False
    lost: str = ""
    done: bool = False
    admitted: set[Node] = field(default_factory=set)


class Pass:
    """Run it once with `run`. Peers are concluded one by one by `told`; those that are not when it ends were not asked,
    or not to the end, and are the caller's to ask otherwise.

    told(answer, why): why is "" for a final answer; otherwise the head could not learn how the peer is, and it should
    be asked another way; the answer then is what stands if there is no time for that
    """

    def __init__(
        self,
        head: Peer,
        peers: list[Peer],
        terms: Terms,
        told: Callable[[NodeAnswer, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._peers = [head, *peers]
        self._target = head.target
        self._terms = terms
        self._told = told
        self._clock = clock
        self._channel: paramiko.Channel | None = None
        self._halted = False
        self._last = 0.0
        self.ended = Ended()
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._closed = False
        self._error: Exception | None = None

    @property
    def peers(self) -> list[Peer]:
        """All but the head."""
        return self._peers[1:]

    @property
    def open(self) -> list[Peer]:
        return [peer for peer in self._peers if not peer.concluded]

    def halt(self) -> None:
        """Begin no further peer."""
        if not self._halted:
            self._halted = True
            self._say("halt")

    def run(self, dial: Callable[[Target, Watch], Any], watch: Watch) -> None:
        """Sets `ended`. watch: of the head's connection; the peers have their own."""
        sock: Any = None
        session: Session | None = None
        agent: LoginAgent | None = None
        frames = FrameReader(new_nonce(), len(self._peers))
        try:
            sock = dial(self._target, watch)
            if isinstance(sock, socket.socket):
                sock = HeadSocket(sock)
            session = connection.log_in(sock, self._target, watch, self._clock)
            agent = self._agent(session)
            self._converse(session, agent, frames, watch)
        except Fault as fault:
            self.ended.fault = fault
        except (paramiko.SSHException, OSError, EOFError) as error:
            if session is None:
                words = f"{self._target}: {connection.why(error)}"
                self.ended.fault = Fault(OutcomeKind.UNREACHABLE, words, passing=True)
            self.ended.lost = connection.why(error)
        finally:
            if agent is not None:
                agent.close()
            self._channel = None
            if sock is not None:
                connection.close(session, sock)
            with self._turn:
                self._closed = True
        if self._error is not None:
            raise self._error
        if not (self.ended.done or self.ended.fault or self.ended.refused):
            self._head_is_lost(frames, watch)
        for peer in self._peers:
            peer.watch.close()
        watch.close()

    def _agent(self, session: Session) -> LoginAgent | None:
        if self._terms.token and not self._terms.admit:
            return None
        assert session.accepted is not None
        allowed: dict[bytes, set[str]] = {}
        for peer in self._peers[1:]:
            for key in peer.keys:
                allowed.setdefault(key.blob, set()).add(peer.target.user)
        return LoginAgent(
            session.accepted, {blob: frozenset(users) for blob, users in allowed.items()}, 2 * len(self._peers)
        )

    def _converse(self, session: Session, agent: LoginAgent | None, frames: FrameReader, watch: Watch) -> None:
        target, clock = self._target, self._clock
        text = relay_text(order_of(self._peers, self._terms), frames.nonce)
        watch.set("session", clock() + target.channel_s)
        try:
            channel = session.open_session(timeout=target.channel_s + 1)
        except (paramiko.SSHException, EOFError) as error:
            self.ended.refused = f"it opens no session ({connection.why(error)})"
            return
        channel.set_combine_stderr(True)
        inflow: Any = Inflow(channel, lambda data: self._hear(frames, watch, data), self._over.set)
        channel.in_buffer = inflow
        if agent is not None:
            serve_agent(session, agent)
            channel.request_forward_agent(lambda unused: None)
        # Before anything is heard of the head: its first word may come before exec_command returns.
        self._last = clock() + max(outer_s(peer, self._terms) for peer in self._peers) + SLOW_S * len(self._peers) + 60
        channel.exec_command(relay_line(frames.nonce, text))
        watch.set("script", clock() + SCRIPT_OVERHEAD_S + self._terms.grace_s + target.channel_s)
        for peer in self._peers:
            peer.watch.on_expiry(partial(self._say, f"kill {peer.number}"))
        channel.sendall(text)
        self._channel = channel
        if self._halted:
            self._say("halt")
        self._over.wait()

    def _hear(self, frames: FrameReader, watch: Watch, data: bytes) -> None:
        """What the head sent; called in the transport's thread, which no fault of ours may end."""
        with self._turn:
            if self._closed:
                return
            try:
                for frame in frames.feed(data):
                    self._take(frame)
                self._conclude_overdue()
            except Exception as error:
                self._error = error
            if frames.garbled:
                self.ended.lost = frames.garbled
            if frames.garbled or self.ended.done or self.ended.refused or self._error is not None:
                self._over.set()
            elif frames.begun:
                watch.set("relay", self._patience())

    def _patience(self) -> float:
        """Until when the head may be silent: it beats while it waits. The whole pass is bounded too."""
        return min(self._last, self._clock() + TICK_S * TICKS_A_BEAT + self._terms.grace_s)

    def _take(self, frame: Frame) -> None:
        if frame.kind is FrameKind.CANNOT:
            self.ended.refused = _REFUSALS.get(frame.word, frame.word)
            self.ended.no_key = frame.word == NO_KEY
        elif frame.kind is FrameKind.DONE:
            self.ended.done = True
        elif frame.kind is not FrameKind.TICK:
            peer = self._peers[frame.peer]
            if peer.concluded:
                return
            if frame.kind is FrameKind.START:
                self._started(peer)
            elif frame.kind is FrameKind.BLOCK:
                self._read(peer, frame.data)
            else:
                self._conclude(peer, frame)

    def _started(self, peer: Peer) -> None:
        peer.began = self._clock()
        peer.last = peer.began + self._terms.node_deadline_s
        peer.watch.set("login", min(peer.last, peer.began + login_s(peer, self._terms) + self._terms.grace_s))

    def _read(self, peer: Peer, data: bytes) -> None:
        before = peer.reader.current
        peer.reader.feed(data)
        current = peer.reader.current
        if current is not before:
            # One command at a time has the right to keep us waiting, as when asked directly. The head's own turn to
            # send comes on top.
            allowed = time_of(current) if current is not None else 0.0
            beat = TICK_S * TICKS_A_BEAT
            peer.watch.set("script", min(peer.last, self._clock() + allowed + self._terms.grace_s + beat))

    def _conclude_overdue(self) -> None:
        """Peers whose time has been up for a while, and whose ssh the head could not end."""
        for peer in self.open:
            if peer.watch.expired and peer.watch.at is not None and self._clock() > peer.watch.at + 10:
                self._conclude(peer, Frame(FrameKind.END, peer.number, 137))

    def _conclude(self, peer: Peer, frame: Frame) -> None:
        outcome, why = outcome_of_peer(peer, frame)
        if peer.admitted:
            self.ended.admitted.add(peer.node)
        self._tell(peer, outcome, why)

    def _tell(self, peer: Peer, outcome: Outcome, why: str = "") -> None:
        peer.concluded = True
        peer.watch.close()
        seconds = self._clock() - peer.began if peer.began is not None else 0.0
        results = peer.reader.results
        self._told(NodeAnswer(peer.node, with_only_result(outcome, results, peer.commands, seconds), results), why)

    def _head_is_lost(self, frames: FrameReader, watch: Watch) -> None:
        """The connection ended before `done`. Of the head itself that is an answer; its peers are not to blame."""
        ended = self.ended
        cut = watch.expired in STOPPED
        if not frames.begun and not cut:
            ended.refused = f"it does not run the relay{': ' + frames.noise[:200] if frames.noise else ''}"
        elif not ended.lost:
            ended.lost = "it went silent" if watch.expired else "the connection to it broke"
        head = self._peers[HEAD]
        for peer in self.open:
            if cut or peer.watch.expired in STOPPED:
                self._tell(peer, stopped(peer.reader, peer.watch.expired or watch.expired))
            elif peer is head and peer.reader.begun:
                self._tell(peer, outcome_of_script(peer.reader, None, watch, peer.node))

    def _say(self, words: str) -> None:
        """To the head; one that does not hear is dealt with by its own deadline."""
        channel = self._channel
        if channel is None:
            return
        try:
            channel.sendall(f"{words}\n".encode())
        except (OSError, EOFError, paramiko.SSHException):
            return
