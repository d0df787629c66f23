"""One SSH connection: dial, verify the host key, log in. Every phase is bounded by a Watch; every failure is a Fault.

paramiko's Transport is used directly, and its waits are given nothing to time: a Watch cuts the socket when a phase
is too slow, which wakes whatever paramiko waits for. So its reader need not wake ten times a second.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import paramiko
from paramiko.common import MSG_CHANNEL_CLOSE

from ndctl.model.answers import OutcomeKind
from ndctl.ssh.deadlines import Watch
from ndctl.ssh.keys import Identities, Identity
from ndctl.ssh.known_hosts import KnownHosts, Trust, fingerprint, host_name
from ndctl.ssh.tunnel import handle_close, prepare

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


class Fault(Exception):
    """Why a node could not be asked, on its way to becoming an Outcome.

    passing: it may be gone in a moment (refused, reset): another attempt makes sense
    at_jump: a jump host is to blame, not the node: another chain may do
    """

    def __init__(
        self, kind: OutcomeKind, detail: str, *, hint: str = "", passing: bool = False, at_jump: bool = False
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.hint = hint
        self.passing = passing
        self.at_jump = at_jump

    def blamed_on_jump(self) -> Fault:
        """The same fault as a node behind the jump host tells it."""
        detail = self.detail if self.at_jump else f"jump host: {self.detail}"
        return Fault(self.kind, detail, hint=self.hint, passing=self.passing, at_jump=True)


@dataclass(frozen=True, slots=True)
class Target:
    """Where and as whom one connection goes, everything resolved. `known_as` is its name in known_hosts."""

    host: str
    port: int
    user: str
    known_as: str
    identities: Identities
    known_hosts: KnownHosts
    connect_s: float
    banner_s: float
    auth_s: float
    channel_s: float
    learn_hint: str = ""

    def __str__(self) -> str:
        return host_name(self.host, self.port)


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

    def _log(self, level: int, msg: str, *args: object) -> None:
        """Nobody reads paramiko's log; what goes wrong is told by Faults."""

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


def dial(target: Target, watch: Watch, clock: Callable[[], float] = time.monotonic) -> socket.socket:
    """A TCP connection to the target, or a Fault: refused, or unreachable with the system's words."""
    watch.set("connect", clock() + target.connect_s)
    try:
        sock = socket.create_connection((target.host, target.port), timeout=target.connect_s)
    except ConnectionRefusedError as error:
        raise Fault(
            OutcomeKind.REFUSED,
            f"{target} refused the connection: the host is up, its SSH server is not listening",
            passing=True,
        ) from error
    except TimeoutError as error:
        raise Fault(OutcomeKind.UNREACHABLE, f"{target} did not answer within {target.connect_s:g} s") from error
    except OSError as error:
        words = error.strerror or str(error)
        known = isinstance(error, socket.gaierror)
        raise Fault(OutcomeKind.UNREACHABLE, f"{target}: {words}", passing=not known) from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def log_in(sock: Any, target: Target, watch: Watch, clock: Callable[[], float] = time.monotonic) -> Session:
    """Key exchange, host key, login over a connected socket. The caller closes it; a Fault has closed it."""
    watch.on_expiry(lambda: cut_socket(sock))
    session: Session | None = None
    try:
        session = Session(sock)
        _shake_hands(session, target, watch, clock)
        _verify_host(session, target)
        _authenticate(session, target, watch, clock)
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
        raise Fault(OutcomeKind.UNREACHABLE, f"{target} {what} within {target.banner_s:g} s")
    error = session.get_exception()
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        raise Fault(OutcomeKind.UNREACHABLE, f"{target} and ndctl share no algorithm: {error}")
    if not spoke.startswith("SSH-"):
        said = f" (it said {spoke[:60]!r})" if spoke else f" ({why(error)})"
        # sshd drops logins beyond MaxStartups like this, so another attempt is worth it.
        raise Fault(OutcomeKind.UNREACHABLE, f"{target} does not answer as an SSH server{said}", passing=True)
    raise Fault(OutcomeKind.UNREACHABLE, f"{target} broke off the key exchange: {why(error)}", passing=True)


def _algorithms(kinds: list[str]) -> tuple[str, ...]:
    """Known types first, so that a server shows the key that is expected; the rest so that a change can be seen."""
    known = [name for kind in dict.fromkeys(kinds) for name in _KEY_ALGORITHMS.get(kind, (kind,))]
    every = paramiko.Transport._preferred_keys
    return tuple(name for name in known if name in every) + tuple(name for name in every if name not in known)


def _verify_host(session: Session, target: Target) -> None:
    key = session.get_remote_server_key()
    kind, blob = key.get_name(), key.asbytes()
    trust, expected = target.known_hosts.judge(target.known_as, target.port, kind, blob)
    if trust is Trust.KNOWN:
        return
    shown = f"{kind} {fingerprint(blob)}"
    name = host_name(target.known_as, target.port)
    file = str(target.known_hosts.files[0]) if target.known_hosts.files else "a known_hosts file"
    if trust is Trust.CHANGED:
        was = ", ".join(f"{key.kind} {key.fingerprint} ({key.where})" for key in expected)
        relearn = target.learn_hint or f"ssh-keygen -R '{name}' -f {file}, then learn it again"
        raise Fault(
            OutcomeKind.HOST_KEY_CHANGED,
            f"{name} shows {shown}; known is {was}",
            hint=f"if the node was reimaged or replaced, learn its key again over a channel you trust: {relearn}",
        )
    if trust is Trust.REVOKED:
        raise Fault(
            OutcomeKind.HOST_KEY_CHANGED,
            f"{name} shows {shown}, which known_hosts marks @revoked",
            hint="this key must not be trusted any more: give the node new host keys, then learn them",
        )
    learn = target.learn_hint or (
        f"ssh-keyscan -p {target.port} {target.host}, compare the fingerprint with the node's console, add it to {file}"
    )
    if trust is Trust.AUTHORITY_ONLY:
        raise Fault(
            OutcomeKind.HOST_KEY_UNKNOWN,
            f"{name} shows {shown}; known_hosts has only a @cert-authority line for it, and host certificates "
            "are not supported",
            hint=f"add the node's own key: {learn}",
        )
    raise Fault(OutcomeKind.HOST_KEY_UNKNOWN, f"{name} shows {shown}, which no known_hosts file has", hint=learn)


def _authenticate(session: Session, target: Target, watch: Watch, clock: Callable[[], float]) -> None:
    identities = target.identities
    problems = "".join(f"; {problem}" for problem in identities.problems)
    if not identities.offers:
        raise Fault(
            OutcomeKind.AUTH_FAILED,
            f"no usable private key for {target.user}@{target}{problems}",
            hint="name one as ssh.private_key in the inventory, or add it to the agent: ssh-add",
        )
    until = clock() + target.auth_s
    watch.set("login", until)
    tried = []
    for identity in identities.offers:
        answered = threading.Event()
        try:
            session.auth_publickey(target.user, identity.key, answered)
            answered.wait(max(0.0, until - clock()) + 1)
        except (paramiko.SSHException, OSError, EOFError):
            if session.is_active():
                raise
        if session.is_authenticated():
            session.accepted = identity
            return
        if watch.expired:
            raise Fault(OutcomeKind.TIMED_OUT, f"{target} did not answer the login within {target.auth_s:g} s")
        tried.append(identity.label)
        if not session.is_active():
            break
        session.get_exception()  # forget this refusal before the next key
    refused = f"{target} refused {target.user} with {', '.join(tried)}"
    if not session.is_active() and len(tried) < 2:
        # A server that hangs up during the first key says nothing of the key.
        error = session.get_exception()
        if error is None or isinstance(error, (EOFError, OSError)):
            raise Fault(OutcomeKind.UNREACHABLE, f"{target} broke off the login: {why(error)}", passing=True)
        refused = f"{tried[0]} could not be used for {target.user}@{target}: {error}"
    raise Fault(
        OutcomeKind.AUTH_FAILED,
        refused + problems,
        hint=f"is the public key in ~{target.user}/.ssh/authorized_keys on the node? is '{target.user}' right?",
    )


def why(error: BaseException | None) -> str:
    """An exception of paramiko's or the socket's in words; many of them say nothing."""
    if error is None or isinstance(error, EOFError) or not str(error):
        return "connection closed"
    return str(error).replace("Error reading SSH protocol banner", "").strip() or "connection closed"
