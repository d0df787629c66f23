"""The bound on nodes under test over all workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable

from ndctl.workflow.bounds import NodeBound

_LOOK_AGAIN_S = 0.5


class ClusterBound(NodeBound):
    """Kept by the scheduler, which frees what a lost worker held."""

    def __init__(self, limit: int, name: str) -> None:
        from distributed import Lock, Semaphore

        super().__init__(limit)
        self._leases = Semaphore(max_leases=limit, name=f"{name}-bound")
        self._turn = Lock(f"{name}-turn")  # one rack takes at a time, or two would wait for each other's half

    def take(self, nodes: int, stopped: Callable[[], bool], waits: Callable[[], None] = lambda: None) -> int:
        if self.limit is None or nodes <= 0:
            return max(0, nodes)
        wanted, taken, told = min(nodes, self.limit), 0, False
        while not self._turn.acquire(timeout=_LOOK_AGAIN_S):
            if stopped():
                return 0
            if not told:
                told = True
                waits()
        try:
            while taken < wanted:
                if stopped():
                    self.give_back(taken)
                    return 0
                if self._leases.acquire(timeout=_LOOK_AGAIN_S):
                    taken += 1
                elif not told:
                    told = True
                    waits()
            return taken
        finally:
            self._turn.release()

    def give_back(self, nodes: int) -> None:
        for _ in range(nodes):
            self._leases.release()
