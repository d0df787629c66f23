"""A head's channels, read in the transport's own thread.

paramiko gives every channel buffers with locks and wakes a reader for each packet. A head's peers make an agent channel
each, and that would cost the client more than the logins it saves; so here packets are answered where they are read.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import paramiko
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_OPEN,
    cMSG_CHANNEL_CLOSE,
    cMSG_CHANNEL_DATA,
    cMSG_CHANNEL_OPEN_SUCCESS,
    cMSG_CHANNEL_WINDOW_ADJUST,
)

from ndctl.ssh.connection import Session
from ndctl.ssh.relay_agent import LONGEST, AgentConnection, LoginAgent, Malformed

_READ_BYTES = 131_072
_AGENT = "auth-agent@openssh.com"


class HeadSocket:
    """A connected socket that is read in large pieces. paramiko asks it twice for each packet, and by a poll and a read
    each time since it sets a time-out; here a Watch cuts what takes too long, so that none is needed."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(None)
        self._sock = sock
        self._buffer = b""
        self._shut = False
        self.send = sock.send
        self.getpeername = sock.getpeername

    @property
    def _closed(self) -> bool:
        """Asked by paramiko of every socket."""
        return self._shut

    def settimeout(self, seconds: float | None) -> None:
        """Not needed."""

    def recv(self, count: int) -> bytes:
        if not self._buffer:
            self._buffer = self._sock.recv(_READ_BYTES)
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def close(self) -> None:
        """The first time a reader is only woken; the second time nobody reads any more."""
        if self._shut:
            self._sock.close()
            return
        self._shut = True
        with suppress(OSError):  # it was gone already
            self._sock.shutdown(socket.SHUT_RDWR)


class AgentLink:
    """One connection the head made to the agent; a channel, as far as the transport knows.

    A signature that may take time, and an answer while keys are exchanged anew, are left to a thread.
    """

    def __init__(self, session: Session, number: int, remote: int, agent: LoginAgent) -> None:
        self._session: Any = session
        self._number = number
        self._remote = remote
        self._quick = agent.quick
        self._connection = AgentConnection(agent)
        self._later: queue.SimpleQueue[bytes] | None = None
        self._left = 8 * LONGEST  # more than the logins of a rack need, and less than the window that is given
        self._closed = False

    def take(self, kind: int, message: paramiko.Message) -> None:
        """A packet for this channel."""
        if kind == MSG_CHANNEL_DATA:
            self._feed(message.get_binary())
        elif kind == MSG_CHANNEL_EOF:
            self._unlink()  # closing it would cost two more packets; it ends with the connection
        elif kind == MSG_CHANNEL_CLOSE:
            self._close()
            self._session._unlink_channel(self._number)

    def _unlink(self) -> None:
        """No more is answered; called by paramiko when the connection ends."""
        self._closed = True
        if self._later is not None:
            self._later.put(b"")

    def _feed(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._close()
        elif self._later is not None:
            self._later.put(data)
        elif self._quick and self._session.clear_to_send.is_set():
            self._respond(data, self._session._send_message)
        else:
            self._later = queue.SimpleQueue()
            self._later.put(data)
            threading.Thread(target=self._work, name="ndctl-agent", daemon=True).start()

    def _work(self) -> None:
        assert self._later is not None
        while data := self._later.get():
            self._respond(data, self._session._send_user_message)

    def _respond(self, data: bytes, send: Callable[[paramiko.Message], None]) -> None:
        try:
            answer = self._connection.feed(data)
        except (Malformed, OSError, EOFError, paramiko.SSHException):
            self._close()  # a head that asks nonsense, or an agent that is gone: its ssh has no key, and says so
            return
        if answer and not self._closed:
            send(_message(cMSG_CHANNEL_DATA, self._remote, data=answer))

    def _close(self) -> None:
        if not self._closed:
            self._unlink()
            self._session._send_message(_message(cMSG_CHANNEL_CLOSE, self._remote))


def serve_agent(session: Session, agent: LoginAgent) -> None:
    """Let connections to the agent be opened from the other side of this session, and nothing else."""
    links: list[AgentLink] = []  # a transport holds its channels weakly
    inner: Any = session
    table: dict[int, Any] = inner._channel_handler_table

    def opened(message: paramiko.Message) -> None:
        if message.get_text() != _AGENT:
            message.rewind()
            inner._parse_channel_open(message)
            return
        remote = message.get_int()
        with inner.lock:
            number = inner._next_channel()
        link = AgentLink(session, number, remote, agent)
        links.append(link)
        inner._channels.put(number, link)
        inner.channels_seen[number] = True
        inner._send_message(
            _message(
                cMSG_CHANNEL_OPEN_SUCCESS, remote, number, inner.default_window_size, inner.default_max_packet_size
            )
        )

    def handler(kind: int, ordinary: Any) -> Any:
        def handle(channel: Any, message: paramiko.Message) -> None:
            if isinstance(channel, AgentLink):
                channel.take(kind, message)
            else:
                ordinary(channel, message)

        return handle

    inner._handler_table[MSG_CHANNEL_OPEN] = opened
    inner._channel_handler_table = {kind: handler(kind, ordinary) for kind, ordinary in table.items()}


class Inflow:
    """Takes the place of a channel's input buffer: hands on what comes, and gives the window back.

    on_data is called in the transport's thread; so is on_end, at the end of the stream or of the connection, perhaps
    more than once.
    """

    def __init__(self, channel: paramiko.Channel, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._channel: Any = channel
        self._on_data = on_data
        self._owed = 0
        self.close = on_end

    def feed(self, data: bytes) -> None:
        self._on_data(data)
        channel = self._channel
        self._owed += channel._check_add_window(len(data))
        if self._owed and channel.transport.clear_to_send.is_set():
            channel.transport._send_message(_message(cMSG_CHANNEL_WINDOW_ADJUST, channel.remote_chanid, self._owed))
            self._owed = 0


def _message(kind: bytes, *numbers: int, data: bytes | None = None) -> paramiko.Message:
    parts = [kind, *(number.to_bytes(4, "big") for number in numbers)]
    if data is not None:
        parts += [len(data).to_bytes(4, "big"), data]
    return paramiko.Message(b"".join(parts))
