"""One rack that is asked through a head: who may be one, with which key its peers are logged in to, what is left."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ndctl.model.answers import Command
from ndctl.model.places import Node
from ndctl.ssh.connection import Target
from ndctl.ssh.known_hosts import HostKey, Trust
from ndctl.ssh.routes import Dial, Routes

# Fewer are asked directly: a head and a single peer cost more than two logins.
FEWEST = 3
KEY_MINUTES = 60
# Some minutes before the peers stop accepting it.
_KEY_USED_S = 50 * 60.0
_PLAIN_HOST = re.compile(r"^[0-9A-Za-z][0-9A-Za-z._:%-]*$")
_PLAIN_USER = re.compile(r"^[0-9A-Za-z_][0-9A-Za-z._@-]*$")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that can take part in a relay, as the client knows it."""

    node: Node
    target: Target
    dial: Dial
    keys: tuple[HostKey, ...]


@dataclass(slots=True)
class RunKey:
    """An ephemeral key of a head's.

    made:    the head may have it
    touched: peers that may admit it; admitted: those that said so
    until:   monotonic seconds, when it is to be admitted anew
    """

    token: str
    head: Node
    until: float = 0.0
    made: bool = False
    touched: set[Node] = field(default_factory=set)
    admitted: set[Node] = field(default_factory=set)


class Rack:
    """What is remembered of one rack between the askings of a run. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.turn = threading.Lock()  # one pass at a time: the next one must know what the last one left
        self._clock = clock
        self._lock = threading.Lock()
        self._key: RunKey | None = None
        self._spent: list[RunKey] = []
        self._agent_only = False
        self.head: Node | None = None
        self.refused = ""

    def key_for(self, head: Node, peers: set[Node]) -> tuple[RunKey | None, bool]:
        """(the key by which these peers are logged in to from this head, whether it is still to be admitted on them);
        no key: by the client's agent, and nothing is put on a node."""
        with self._lock:
            key = self._key
            usable = key is not None and key.head == head and self._clock() < key.until
            if key is not None and usable and peers <= key.admitted:
                return key, False
            if self._agent_only:
                return None, False
            if key is None or not usable:
                if key is not None:
                    self._spent.append(key)
                key = self._key = RunKey(secrets.token_hex(12), head)
            return key, True

    def offered(self, key: RunKey, *, since: float, asked: set[Node], admitted: set[Node]) -> None:
        """A pass in which the head made the key and these peers were asked to admit it; `since`: when it began."""
        with self._lock:
            key.made = True
            key.until = since + _KEY_USED_S
            key.touched |= asked
            key.admitted |= admitted
            if asked - key.admitted:
                self._agent_only = True

    def not_accepted(self) -> None:
        """The ephemeral key does not let in; the agent does, from now on."""
        with self._lock:
            self._agent_only = True
            if self._key is not None:
                self._spent.append(self._key)
                self._key = None

    def take_keys(self) -> list[RunKey]:
        """All keys that were made; they are the caller's to remove."""
        with self._lock:
            keys = self._spent + ([self._key] if self._key is not None else [])
            self._spent, self._key = [], None
            return [key for key in keys if key.made]


def candidates(routes: Routes, nodes: Mapping[Node, tuple[Command, ...]]) -> list[Candidate]:
    """Those of the nodes that a head can be asked to reach: by the address and the login that the client itself would
    use, and with a host key that the client knows."""
    found: list[Candidate] = []
    for node in nodes:
        if not node.address:
            continue
        target, dial = routes.to(node)
        keys = tuple(
            key
            for key in target.known_hosts.expected(target.known_as, target.port)
            if target.known_hosts.judge(target.known_as, target.port, key.kind, key.blob)[0] is Trust.KNOWN
        )
        plain = target.host == node.address and _PLAIN_HOST.match(target.host) and _PLAIN_USER.match(target.user)
        same_login = not found or target.identities is found[0].target.identities
        if keys and plain and same_login and target.identities.offers:
            found.append(Candidate(node, target, dial, keys))
    return found
