"""Jump hosts: a few shared logins per chain, every node a channel through one of them.

A bastion's sshd refuses logins at random when more than ten begin at once (MaxStartups 10:30:100), so logins are few,
shared and counted. Several chains are used side by side; one that is down hands its nodes to the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import paramiko

from ndctl.model.answers import OutcomeKind
from ndctl.ssh import connection
from ndctl.ssh.connection import ChannelRefused, Session
from ndctl.ssh.deadlines import DeadlineKeeper, Watch
from ndctl.ssh.dialing import dial
from ndctl.ssh.target import Fault, Target
from ndctl.ssh.tunnel import tunnel

# After a chain has failed, other nodes are not sent into the same time-out again for this long.
_DOWN_S = 20.0
# A jump host that does not answer a question about nothing within this is taken for dead.
_SIGN_OF_LIFE_S = 5.0
_ADMINISTRATIVELY_PROHIBITED = 1
_CONNECT_FAILED = 2


class LoginGates:
    """At most `limit` logins at once per jump host, whichever chains share it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._gates: dict[tuple[str, int], threading.Semaphore] = {}

    def of(self, target: Target) -> threading.Semaphore:
        with self._lock:
            return self._gates.setdefault((target.host, target.port), threading.Semaphore(self._limit))


class _Line:
    """One login on the last hop of a chain, with the logins below it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sessions: list[Session] = []
        self.users = 0

    @property
    def alive(self) -> bool:
        return bool(self.sessions) and all(session.is_active() for session in self.sessions)

    def close(self) -> None:
        for session in reversed(self.sessions):
            connection.close(session, session.sock)
        self.sessions = []


class Chain:
    """The hops to one last jump host and up to `transports` shared logins on it."""

    def __init__(
        self,
        hops: Sequence[Target],
        keeper: DeadlineKeeper,
        gates: LoginGates,
        transports: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.hops = tuple(hops)
        self._keeper = keeper
        self._gates = gates
        self._clock = clock
        self._lock = threading.Lock()
        self._lines = [_Line() for _ in range(transports)]
        self._down_until = 0.0
        self._fault: Fault | None = None

    def dial(self, target: Target, watch: Watch) -> Any:
        """A tunnel to the target through the least used login. Faults say which hop is to blame."""
        with self._lock:
            if self._fault is not None and self._clock() < self._down_until:
                raise self._fault.blamed_on_jump()
            line = min(self._lines, key=lambda candidate: candidate.users)
            line.users += 1
        try:
            session = self._session(line)
            channel = open_through(session, self.hops[-1], target, watch, self._clock)
        except BaseException:
            self._leave(line)
            raise
        hop = str(self.hops[-1])

        def lost(ask: bool) -> str:
            holds = session.is_answering(_SIGN_OF_LIFE_S) if ask else session.is_active()
            return "" if holds else hop

        return tunnel(channel, lambda: self._leave(line), lost)

    def close(self) -> None:
        for line in self._lines:
            line.close()

    def _leave(self, line: _Line) -> None:
        with self._lock:
            line.users -= 1

    def _session(self, line: _Line) -> Session:
        with line.lock:
            if not line.alive:
                line.close()
                try:
                    self._open(line)
                except Fault as fault:
                    line.close()
                    told = fault.blamed_on_jump()
                    with self._lock:
                        self._fault, self._down_until = told, self._clock() + (1.0 if fault.passing else _DOWN_S)
                    raise told from fault
            return line.sessions[-1]

    def _open(self, line: _Line) -> None:
        for position, hop in enumerate(self.hops):
            watch = self._keeper.watch()
            with self._gates.of(hop):
                try:
                    if position == 0:
                        sock: Any = dial(hop, watch, self._clock)
                    else:
                        below = self.hops[position - 1]
                        sock = tunnel(open_through(line.sessions[-1], below, hop, watch, self._clock))
                    line.sessions.append(connection.log_in(sock, hop, watch, self._clock))
                finally:
                    watch.close()


def open_through(
    session: Session, hop: Target, target: Target, watch: Watch, clock: Callable[[], float] = time.monotonic
) -> paramiko.Channel:
    """A direct-tcpip channel from `hop` to `target`, within the target's connect time."""
    watch.set("connect", clock() + target.connect_s)
    try:
        return session.open_tcp(target.host, target.port, target.connect_s)
    except ChannelRefused as error:
        raise _refused_by_hop(error, hop, target) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        if session.is_answering(_SIGN_OF_LIFE_S):
            raise Fault(
                OutcomeKind.UNREACHABLE, f"{target} did not answer within {target.connect_s:g} s (through {hop})"
            ) from error
        raise Fault(
            OutcomeKind.UNREACHABLE, f"the connection to jump host {hop} broke", passing=True, at_jump=True
        ) from error


def _refused_by_hop(error: ChannelRefused, hop: Target, target: Target) -> Fault:
    words = error.words or "connect failed"
    if error.code == _ADMINISTRATIVELY_PROHIBITED:
        return Fault(
            OutcomeKind.UNREACHABLE,
            f"jump host {hop} forbids connections to {target}",
            hint="allow it in the jump host's sshd: AllowTcpForwarding, PermitOpen",
            at_jump=True,
        )
    if error.code == _CONNECT_FAILED and "refused" in words.lower():
        return Fault(OutcomeKind.REFUSED, f"{target} refused the connection (through {hop})", passing=True)
    return Fault(OutcomeKind.UNREACHABLE, f"{target} cannot be reached through {hop}: {words}")


class JumpHosts:
    """Several chains side by side. Nodes are dealt out in turn; a chain that fails passes its node on."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._chains = tuple(chains)
        self._lock = threading.Lock()
        self._next = 0

    def dial(self, target: Target, watch: Watch) -> Any:
        with self._lock:
            first = self._next
            self._next = (first + 1) % len(self._chains)
        order = self._chains[first:] + self._chains[:first]
        for position, chain in enumerate(order):
            try:
                return chain.dial(target, watch)
            except Fault as fault:
                if position + 1 == len(order) or watch.expired or not fault.at_jump:
                    raise
        raise AssertionError("a JumpHosts has at least one chain")

    def close(self) -> None:
        for chain in self._chains:
            chain.close()
