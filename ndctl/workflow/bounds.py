"""How many nodes of a run are under active test at one time: racks wait for each other, first come first served."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

_LOOK_AGAIN_S = 0.5  # for an interruption; whoever gives back wakes the others at once


class NodeBound:
    """At most `limit` nodes at once, over all threads; None: no limit."""

    def __init__(self, limit: int | None = None) -> None:
        if limit is not None and limit < 1:
            raise ValueError("a limit below one node tests nothing")
        self.limit = limit
        self._free = limit or 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    def take(self, nodes: int, stopped: Callable[[], bool], waits: Callable[[], None] = lambda: None) -> int:
        """Wait until that many nodes are free for test, `limit` at most; how many were taken, 0 when `stopped`.

        waits: called once when it has to wait. Who asks for many is not overtaken by those who ask for few.
        """
        if self.limit is None or nodes <= 0:
            return max(0, nodes)
        wanted, me, told = min(nodes, self.limit), object(), False
        with self._changed:
            self._waiting.append(me)
            try:
                while self._waiting[0] is not me or self._free < wanted:
                    if stopped():
                        return 0
                    if not told:
                        told = True
                        waits()
                    self._changed.wait(_LOOK_AGAIN_S)
                if stopped():
                    return 0
                self._free -= wanted
                return wanted
            finally:
                self._waiting.remove(me)
                self._changed.notify_all()

    def give_back(self, nodes: int) -> None:
        """What `take` gave, or a part of it that is not needed after all."""
        if self.limit is None or nodes <= 0:
            return
        with self._changed:
            self._free += nodes
            if self._free > self.limit:
                raise ValueError("more nodes given back than were taken")
            self._changed.notify_all()
