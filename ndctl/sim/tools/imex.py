"""nvidia-imex-ctl: the IMEX domain as one node sees it, as text, as JSON, and the local state.

Forms: the full 18-node text of a GB200 rack, and the JSON of live UP and DOWN domains (every configured member has
an entry with its own connections; a peer that does not answer is UNAVAILABLE with INVALID connections).
"""

from __future__ import annotations

import json
from time import localtime

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world.view import NodeView

_LEGEND = """Connectivity Table Legend:
I - Invalid - Node wasn't reachable, no connection status available
N - Never Connected
R - Recovering - Connection was lost, but clean up has not yet been triggered.
D - Disconnected - Connection was lost, and clean up has been triggreed.
A - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.
!V! - Version mismatch, communication disabled.
!M! - Node map mismatch, communication disabled.
C - Connected - Ready for operation
"""
_WORD = {"C": "CONNECTED", "I": "INVALID", "N": "NEVER_CONNECTED", "D": "DISCONNECTED", "R": "RECOVERING"}


def answer(view: NodeView, arguments: list[str], now: float) -> Answer:
    """`-N` the whole domain, `-j` as JSON, `-q` this node's state."""
    if not view.imex_running or not view.peers:
        return Answer(err="Failed to connect to IMEX daemon: Connection refused\n", code=1)
    if "-q" in arguments:
        return Answer("READY\n")
    if "-N" not in arguments:
        return Answer(err="nvidia-imex-ctl: no command given, see nvidia-imex-ctl -h\n", code=1)
    return Answer(_json(view, now) if "-j" in arguments else _text(view, now))


def _stamp(now: float) -> str:
    moment = localtime(now)
    clock = f"{moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d}.{int(now % 1 * 1000):03d}"
    return f"{moment.tm_mon}/{moment.tm_mday}/{moment.tm_year} {clock}"


def _text(view: NodeView, now: float) -> str:
    text = f"{_LEGEND}\n{_stamp(now)}\nNodes:\n"
    for peer in view.peers:
        version = f" - Version: {peer.version}" if peer.version else ""
        text += f"{f'Node #{peer.index}':<10}- {peer.address:<16}- {peer.status:<20} {version.strip()}".rstrip() + "\n"
    text += "\n Nodes From\\To " + "".join(f" {peer.index:<3}" for peer in view.peers).rstrip() + "\n"
    for peer in view.peers:
        text += f"{peer.index:>8}       " + "".join(f" {letter:<3}" for letter in peer.to).rstrip() + "\n"
    return text + f"\nDomain State: {view.imex_status}\n"


def _json(view: NodeView, now: float) -> str:
    nodes = {
        str(peer.index): {
            "status": peer.status,
            "host": peer.address,
            "hostName": peer.hostname,
            "connections": {
                str(other.index): {"host": other.address, "status": _WORD[letter], "changed": True}
                for other, letter in zip(view.peers, peer.to, strict=True)
            },
            "changed": True,
            "version": peer.version,
        }
        for peer in view.peers
    }
    return json.dumps({"nodes": nodes, "timestamp": _stamp(now), "status": view.imex_status}, indent=2) + "\n"
