"""What a head is told of one pass, and how much time each of its peers is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ndctl.ssh.known_hosts import host_name
from ndctl.ssh.relay_keys import ADMIT_S
from ndctl.ssh.relay_peer import HEAD, Peer
from ndctl.ssh.relay_script import Order, PeerLine
from ndctl.ssh.visit import SCRIPT_OVERHEAD_S, time_of


@dataclass(frozen=True, slots=True)
class Terms:
    """How a pass is done. token, admit, last: see `relay_script.Order`."""

    grace_s: float
    node_deadline_s: float
    token: str = ""
    admit: bool = False
    last: bool = False
    key_minutes: int = 0


def order_of(peers: Sequence[Peer], terms: Terms) -> Order:
    """The first of `peers` is the head itself."""
    lines = []
    for peer in peers:
        here = peer.number == HEAD
        lines.append(
            PeerLine(
                peer.number,
                "-" if here else peer.target.host,
                peer.target.port,
                peer.target.user,
                peer.reader.nonce,
                peer.commands,
                outer_s(peer, terms),
            )
        )
    known = tuple(key.line(host_name(peer.target.host, peer.target.port)) for peer in peers[1:] for key in peer.keys)
    connect_s = peers[HEAD].target.connect_s
    return Order(tuple(lines), known, connect_s, terms.token, terms.admit, terms.last, terms.key_minutes)


def login_s(peer: Peer, terms: Terms) -> float:
    """From the start of ssh to the script's first word."""
    if peer.number == HEAD:
        return SCRIPT_OVERHEAD_S
    target = peer.target
    logged_in = target.connect_s + target.auth_s + target.channel_s + SCRIPT_OVERHEAD_S
    return logged_in + (ADMIT_S + 5 if terms.admit else 0)


def outer_s(peer: Peer, terms: Terms) -> float:
    """After so long the head ends the peer's ssh."""
    whole = login_s(peer, terms) + sum(time_of(command) + 1 for command in peer.commands) + 2 * terms.grace_s
    return min(terms.node_deadline_s + terms.grace_s, whole) + 10
