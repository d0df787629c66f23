"""A TCP connection to a host, name look-up included, within one deadline."""

from __future__ import annotations

import errno
import queue
import socket
import threading
import time
from collections.abc import Callable

from ndctl.model.answers import OutcomeKind
from ndctl.ssh.deadlines import Watch
from ndctl.ssh.target import Fault, Target

# What getaddrinfo gives: family, type, protocol, canonical name, address.
_Address = tuple[int, int, int, str, tuple[object, ...]]
# A name server that is overloaded or a network that comes up; a name that does not exist stays so.
_FOR_A_MOMENT = (socket.EAI_AGAIN,)


def dial(target: Target, watch: Watch, clock: Callable[[], float] = time.monotonic) -> socket.socket:
    """A TCP connection to the target, or a Fault: refused, or unreachable with the system's words.

    A name's addresses are tried in turn, all within the connect time.
    """
    until = clock() + target.connect_s
    watch.set("connect", until)
    fault = _too_late(target)
    for family, kind, protocol, _, address in _addresses(target):
        left = until - clock()
        if left <= 0:
            break
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left)
            sock.connect(address)
        except OSError as error:
            sock.close()
            fault = _fault(target, error)
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    raise fault


def _fault(target: Target, error: OSError) -> Fault:
    if isinstance(error, ConnectionRefusedError):
        return Fault(
            OutcomeKind.REFUSED,
            f"{target} refused the connection: the host is up, its SSH server is not listening",
            hint=target.other_way or "it is booting, or its SSH server is stopped or listens on another port",
            passing=True,
        )
    if isinstance(error, TimeoutError) and error.errno != errno.ETIMEDOUT:
        return _too_late(target)
    return Fault(OutcomeKind.UNREACHABLE, f"{target}: {error.strerror or error}", hint=target.other_way, passing=True)


def _too_late(target: Target) -> Fault:
    return Fault(
        OutcomeKind.UNREACHABLE,
        f"{target} did not answer within {target.connect_s:g} s",
        hint=target.other_way
        or "it is off, or a security group, firewall or route is in the way, or it is only reached by a jump host",
    )


def _addresses(target: Target) -> list[_Address]:
    """What the host's name stands for. Raises Fault."""
    try:
        return _look_up(target.host, target.port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass  # a name, not an address
    answers: queue.SimpleQueue[list[_Address] | OSError | UnicodeError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_look_up(target.host, target.port))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    # The system's resolver has no deadline that could be set, and nothing can end it: it may finish unheard.
    threading.Thread(target=ask, name="ndctl-name", daemon=True).start()
    try:
        answer = answers.get(timeout=target.connect_s)
    except queue.Empty:
        raise Fault(
            OutcomeKind.UNREACHABLE, f"{target}: no name server answered within {target.connect_s:g} s", passing=True
        ) from None
    if isinstance(answer, list):
        return answer
    words = getattr(answer, "strerror", None) or str(answer)
    raise Fault(
        OutcomeKind.UNREACHABLE,
        f"{target}: {words}",
        hint=target.other_way or "is the name right? an address or a Host of ~/.ssh/config does as well",
        passing=isinstance(answer, socket.gaierror) and answer.errno in _FOR_A_MOMENT,
    ) from answer


def _look_up(host: str, port: int, flags: int = 0) -> list[_Address]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)  # type: ignore[return-value]
