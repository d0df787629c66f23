"""Holds back racks whose turn would only pile up texts: nodes answer faster than their answers are judged.

A node says a third of a megabyte. Without this, the texts of a thousand nodes were all held when the last one had
answered: 500 MB, where 200 do.
"""

from __future__ import annotations

import threading

# Racks that answered and are not judged yet: enough that judging never waits for nodes.
UNJUDGED = 6
# Nodes beyond those that are asked at one moment, so that there is always a next one: two racks of them.
_AHEAD = 36


class Backlog:
    """Safe for threads. What stands still never keeps a rack back: a silent node counts for itself only."""

    def __init__(self, nodes_at_once: float) -> None:
        """nodes_at_once: how many are asked side by side; infinity where that is not counted by nodes."""
        self._most = nodes_at_once + _AHEAD
        self._changed = threading.Condition()
        self._awaited = 0  # nodes
        self._unjudged: set[str] = set()
        self._over = False

    def begin(self, nodes: int) -> None:
        """Wait for the turn of a rack of so many nodes; not at all once it is over."""
        with self._changed:
            self._changed.wait_for(self._has_room)
            self._awaited += nodes
            self._wake_one()  # there may be room for another

    def answered(self, nodes: int = 1) -> None:
        """So many need not be waited for any more."""
        with self._changed:
            self._awaited -= nodes
            self._wake_one()

    def to_judge(self, rack: str) -> None:
        with self._changed:
            self._unjudged.add(rack)

    def judged(self, rack: str) -> None:
        """Also of a rack that came by another way."""
        with self._changed:
            self._unjudged.discard(rack)
            self._wake_one()

    def end(self) -> None:
        """Let everybody go on who waits: the run is left."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._over or (self._awaited < self._most and len(self._unjudged) < UNJUDGED)

    def _wake_one(self) -> None:
        """Not all for each answer: dozens of racks wait, and a thousand nodes answer."""
        if self._has_room():
            self._changed.notify()
