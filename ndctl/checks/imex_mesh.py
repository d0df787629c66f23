"""The IMEX domain as all nodes of a rack see it together: the state of every host, and who cannot reach whom.

Hosts are told apart by what the lists call them, not by IMEX index: where nodes have different lists, one index means
different hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.checks.majority import majority
from ndctl.model.places import Node
from ndctl.parse.imex import Imex, ImexNode

READY = "READY"


@dataclass(frozen=True, slots=True)
class Mesh:
    """hosts: in the order of the lists · states: host -> its state · versions: host -> version
    broken: (from, to) of hosts that are both READY -> state of that connection
    blind: nodes whose table does not show all connections, so that a full mesh is not proven
    """

    hosts: tuple[str, ...]
    states: Mapping[str, str]
    versions: Mapping[str, str]
    broken: Mapping[tuple[str, str], str] = field(default_factory=dict)
    blind: tuple[Node, ...] = ()

    @property
    def ready(self) -> set[str]:
        return {host for host, state in self.states.items() if state == READY}

    def pairs(self) -> list[tuple[str, str]]:
        """Broken connections, each pair once."""
        return sorted({(min(pair), max(pair)) for pair in self.broken})


def key(row: ImexNode) -> str:
    return row.host.lower() or f"#{row.index}"


def mesh_of(seen: Mapping[Node, Imex], by_address: Mapping[str, Node]) -> Mesh:
    """`seen`: the domain table of each node that gave one; `by_address`: who is who, as far as it is known."""
    votes: dict[str, dict[Node, str]] = {}
    own: dict[Node, str] = {}
    versions: dict[str, str] = {}
    for node, facts in seen.items():
        for row in facts.nodes:
            votes.setdefault(key(row), {})
            if row.status:
                votes[key(row)][node] = row.status
            if row.version and row.version != "N/A":
                versions[key(row)] = row.version
            if by_address.get(key(row)) == node:
                own[node] = key(row)
    states = {host: _state(by, {own[node]: node for node in own}.get(host)) for host, by in votes.items()}
    ready = {host for host, state in states.items() if state == READY}
    broken: dict[tuple[str, str], str] = {}
    blind: list[Node] = []
    for node, facts in seen.items():
        shown = _connections(facts, own.get(node))
        broken.update({p: s for p, s in shown.items() if s != "CONNECTED" and set(p) <= ready and p[0] != p[1]})
        rows = {one for one, _ in shown} or {""}
        if any(ready - {row} - {to for one, to in shown if one == row} for row in rows):
            blind.append(node)
        if node in own:
            # What most see READY and this one does not, this one does not reach.
            for host, by in votes.items():
                view = by.get(node, READY)
                if host in ready and view != READY and own[node] in ready:
                    broken.setdefault((own[node], host), view)
    return Mesh(tuple(votes), states, versions, broken, tuple(blind))


def _state(by: Mapping[Node, str], itself: Node | None) -> str:
    """Its own word where it says that it is not ready; else what most see; undecided counts as READY, since then the
    connections are in doubt and not the host."""
    if itself is not None and by.get(itself, READY) != READY:
        return by[itself]
    most = majority(by.values())
    if most is not None:
        return most
    return READY if READY in by.values() else min(by.values(), default="")


def _connections(facts: Imex, own: str | None) -> dict[tuple[str, str], str]:
    """(from, to) -> state. A node's own row is first-hand; rows of others are its copy of what they say."""
    names = {row.index: key(row) for row in facts.nodes}
    first_hand = [row for row in facts.nodes if key(row) == own and row.connections]
    return {
        (key(row), names.get(peer, f"#{peer}")): state
        for row in first_hand or facts.nodes
        for peer, state in row.connections.items()
    }


def culprits(mesh: Mesh) -> list[str] | None:
    """Hosts that more than half of the others do not reach; None where so many are that nobody stands out."""
    pairs = mesh.pairs()
    reach = len(mesh.ready) - 1
    found = [
        host for host in mesh.hosts if (count := sum(1 for pair in pairs if host in pair)) > 1 and 2 * count > reach
    ]
    return found if 4 * len(found) <= len(mesh.ready) + 1 else None
