"""A direct-tcpip channel that serves as a socket, and that cannot bring down its neighbours.

paramiko builds a data packet and sends it in two steps. When the channel closes in between, the data follows the
close, and OpenSSH answers "data packet referred to nonexistent channel" by dropping the whole connection: every node
behind that jump host's login is lost with it. So sending and closing take turns here, whoever closes: this side
(`close`), or the reader that answers the server's close (`handle_close`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import paramiko

# While the other end takes no data there is nothing to do but look again; paramiko's writer tries again on a time-out.
_FULL_PAUSE_S = 0.05
_TURN = "_ndctl_turn"


def handle_close(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """The reader's answer to a server that closes a channel, in turn with whoever sends on it."""
    turn = getattr(channel, _TURN, None)
    if turn is None:
        paramiko.Channel._handle_close(channel, message)
        return
    with turn:
        paramiko.Channel._handle_close(channel, message)


def prepare(channel: paramiko.Channel) -> paramiko.Channel:
    """Give a fresh channel its turn-taking; before the first byte is sent on it."""
    setattr(channel, _TURN, threading.Lock())
    return channel


class Tunnel:
    """What a Transport needs of a socket, over a prepared channel. `on_close` is called once.

    lost: the jump host's name when its connection, and this with it, is gone; else "". Given True, it is asked for a
          sign of life first.
    """

    def __init__(
        self, channel: paramiko.Channel, on_close: Callable[[], None], lost: Callable[[bool], str] = lambda asked: ""
    ) -> None:
        self._channel = channel
        self._turn: threading.Lock = getattr(channel, _TURN)
        self._on_close: Callable[[], None] | None = on_close
        self.lost = lost
        self.recv = channel.recv
        self.settimeout = channel.settimeout
        self.getpeername = channel.getpeername

    @property
    def _closed(self) -> bool:
        """Asked by paramiko of every socket."""
        return bool(self._channel.closed)

    def send(self, data: bytes) -> int:
        """Never waits while it has its turn: a full window must not keep the reader from closing."""
        with self._turn:
            if self._channel.closed:
                raise OSError("the tunnel is closed")
            if self._channel.out_window_size > 0:
                return int(self._channel.send(data))
        time.sleep(_FULL_PAUSE_S)
        raise TimeoutError

    def close(self) -> None:
        told, self._on_close = self._on_close, None
        with self._turn:
            self._channel.close()
        if told is not None:
            told()


def tunnel(
    channel: paramiko.Channel,
    on_close: Callable[[], None] = lambda: None,
    lost: Callable[[bool], str] = lambda asked: "",
) -> Any:
    """A Tunnel, typed as the socket it stands in for."""
    return Tunnel(channel, on_close, lost)


def jump_host_lost(sock: Any, *, ask: bool) -> str:
    """The jump host whose connection broke under this socket; "" for any other socket, and while it holds.

    ask: for a sign of life, since a host that crashed says no farewell; takes some seconds when there is none
    """
    return sock.lost(ask) if isinstance(sock, Tunnel) else ""
