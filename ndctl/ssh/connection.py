"""One SSH connection: key exchange, host key, login. Every phase is bounded by a Watch; every failure is a Fault.

paramiko's Transport is used directly, and its waits are given nothing to time: a Watch cuts the socket when a phase
is too slow, which wakes whatever paramiko waits for. So its reader need not wake ten times a second.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import paramiko
from paramiko.common import MSG_CHANNEL_CLOSE, cMSG_GLOBAL_REQUEST

from ndctl.model.answers import OutcomeKind
from ndctl.ssh.deadlines import Watch
from ndctl.ssh.host_verdict import verify_host
from ndctl.ssh.keys import Identity
from ndctl.ssh.login import authenticate
from ndctl.ssh.target import Fault, Target
from ndctl.ssh.tunnel import handle_close, prepare

__all__ = ["ChannelRefused", "Fault", "Session", "Target", "close", "cut_socket", "log_in", "why"]

# paramiko writes a traceback per failed handshake; what matters of it becomes an Outcome.
_LOGGER = logging.getLogger("paramiko")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False
_LOGGER.setLevel(logging.CRITICAL + 1)

# How often a reader looks up from its socket. Cutting the socket wakes it at once, so this is only a backstop.
_READER_POLL_S = 30.0
# With an AEAD cipher there is no separate MAC, which paramiko computes and compares byte by byte in Python.
_CHEAP_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_KEY_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


class ChannelRefused(Exception):
    """The server would not open a channel: RFC 4254's reason code and its own words."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


class Session(paramiko.Transport):
    """A Transport without what a bounded one-shot connection does not need: the poll, the time-out thread."""

    _active_check_timeout = _READER_POLL_S
    _preferred_ciphers = _CHEAP_CIPHERS + tuple(
        name for name in paramiko.Transport._preferred_ciphers if name not in _CHEAP_CIPHERS
    )

    _channel_handler_table: ClassVar = {**paramiko.Transport._channel_handler_table, MSG_CHANNEL_CLOSE: handle_close}

    def __init__(self, sock: Any) -> None:
        super().__init__(sock, packetizer_class=_Packetizer)
        self.accepted: Identity | None = None  # what the server let us in with
        self.farewell = ""  # the server's own words when it ended the connection
        self._offer = b""
        self._asking = threading.Lock()
        self._opening = threading.local()
        self._refusals: dict[int, tuple[int, str]] = {}

    def open_tcp(self, host: str, port: int, timeout_s: float) -> paramiko.Channel:
        """A direct-tcpip channel. Raises ChannelRefused with the server's own words, or paramiko's exceptions.

        paramiko keeps one exception per transport, so that two channels refused at once would be told each other's
        reason; here each has its own.
        """
        try:
            return prepare(self.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=timeout_s))
        except (paramiko.SSHException, EOFError) as error:
            refusal = self._refusals.pop(self._opening.channel, None)
            if refusal is not None:
                raise ChannelRefused(*refusal) from error
            raise

    def is_answering(self, within_s: float) -> bool:
        """Whether the server still answers a request that asks for nothing. One that does not is given up: cut."""
        with self._asking:
            if not self.is_active():
                return False
            question = paramiko.Message()
            question.add_byte(cMSG_GLOBAL_REQUEST)
            question.add_string("keepalive@openssh.com")
            question.add_boolean(True)
            self.completion_event = answered = threading.Event()
            try:
                self._send_user_message(question)
            except (paramiko.SSHException, OSError, EOFError):
                return False
            if answered.wait(within_s) and self.is_active():
                return True
            cut_socket(self.sock)
            return False

    def _filter_algorithm(self, type_: str) -> tuple[str, ...]:
        """Nothing is disabled, so nothing need be filtered; paramiko asks for it a dozen times a login."""
        if self.disabled_algorithms:
            return tuple(super()._filter_algorithm(type_))
        return tuple(getattr(self, f"_preferred_{type_}"))

    def _log(self, level: int, msg: str, *args: object) -> None:
        """Nobody reads paramiko's log; what goes wrong is told by Faults."""

    @property
    def host_key_algorithms(self) -> tuple[str, ...]:
        """What the server could have shown; names with "-cert-v01@" mean that it has a host certificate."""
        return tuple(self._really_parse_kex_init(paramiko.Message(self._offer))["server_key_algo_list"])

    def _parse_kex_init(self, m: paramiko.Message) -> None:
        self._offer = m.asbytes()
        super()._parse_kex_init(m)

    def _parse_disconnect(self, m: paramiko.Message) -> None:
        told = paramiko.Message(m.asbytes())
        told.get_int()
        self.farewell = told.get_text().strip()[:200]
        super()._parse_disconnect(m)

    def _parse_debug(self, m: paramiko.Message) -> None:
        """sshd tells a client a few things for its log at every login; making them printable costs most of a ms."""

    def _next_channel(self) -> int:
        channel: int = super()._next_channel()
        self._opening.channel = channel
        return channel

    def _parse_channel_open_failure(self, m: paramiko.Message) -> None:
        told = paramiko.Message(m.asbytes())
        channel, code = told.get_int(), told.get_int()
        self._refusals[channel] = (code, told.get_text())
        super()._parse_channel_open_failure(m)


class _Packetizer(paramiko.packet.Packetizer):
    def start_handshake(self, timeout: float) -> None:
        """No timer thread per connection: the Watch bounds the handshake."""


def cut_socket(sock: Any) -> None:
    """Shut a socket (or a channel that serves as one) so that blocked readers and writers return."""
    try:
        if isinstance(sock, socket.socket):
            sock.shutdown(socket.SHUT_RDWR)
        else:
            sock.close()
    except (OSError, EOFError, paramiko.SSHException):
        return  # it was gone already


def log_in(sock: Any, target: Target, watch: Watch, clock: Callable[[], float] = time.monotonic) -> Session:
    """Key exchange, host key, login over a connected socket. The caller closes it; a Fault has closed it."""
    watch.on_expiry(lambda: cut_socket(sock))
    session: Session | None = None
    try:
        session = Session(sock)
        _shake_hands(session, target, watch, clock)
        verify_host(session, target)
        authenticate(session, target, watch, clock)
    except BaseException:
        close(session, sock)
        raise
    return session


def close(session: Session | None, sock: Any) -> None:
    """Free both without waiting: the reader sees the end of its socket and ends."""
    cut_socket(sock)
    if session is not None and session.is_active():
        session.close()
    else:
        sock.close()


def _shake_hands(session: Session, target: Target, watch: Watch, clock: Callable[[], float]) -> None:
    expected = target.known_hosts.expected(target.known_as, target.port)
    session.get_security_options().key_types = _algorithms([key.kind for key in expected])
    session.banner_timeout = target.banner_s + 1
    watch.set("handshake", clock() + target.banner_s)
    ready = threading.Event()
    session.start_client(event=ready)
    ready.wait(target.banner_s + 2)
    if session.is_active() and session.initial_kex_done:
        return
    spoke = session.remote_version
    if watch.expired:
        what = "sent its banner and then nothing more" if spoke else "accepts the connection but sends no SSH banner"
        raise Fault(
            OutcomeKind.UNREACHABLE,
            f"{target} {what} within {target.banner_s:g} s",
            hint="it is overloaded or frozen, or another program listens on that port: look at its console",
        )
    error = session.get_exception()
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        raise Fault(OutcomeKind.UNREACHABLE, f"{target} and ndctl share no algorithm: {error}")
    if not spoke.startswith("SSH-"):
        said = f" (it said {spoke[:60]!r})" if spoke else f" ({why(error)})"
        # sshd drops logins beyond MaxStartups like this, so another attempt is worth it.
        raise Fault(
            OutcomeKind.UNREACHABLE,
            f"{target} does not answer as an SSH server{said}",
            hint="another program listens on that port, or its SSH server turns logins away (MaxStartups, penalties)",
            passing=True,
        )
    raise Fault(
        OutcomeKind.UNREACHABLE, f"{target} broke off the key exchange: {session.farewell or why(error)}", passing=True
    )


def _algorithms(kinds: list[str]) -> tuple[str, ...]:
    """Known types first, so that a server shows the key that is expected; the rest so that a change can be seen."""
    known = [name for kind in dict.fromkeys(kinds) for name in _KEY_ALGORITHMS.get(kind, (kind,))]
    every = paramiko.Transport._preferred_keys
    return tuple(name for name in known if name in every) + tuple(name for name in every if name not in known)


def why(error: BaseException | None) -> str:
    """An exception of paramiko's or the socket's in words; many of them say nothing."""
    if error is None or isinstance(error, EOFError) or not str(error):
        return "connection closed"
    return str(error).replace("Error reading SSH protocol banner", "").strip() or "connection closed"
