"""nvbandwidth's matrix over all GPUs of a rack: who is slow with everybody, and which pairs are slow by themselves.

A copy is as fast as the slower of its two GPUs, so a GPU is as good as the median of the copies it takes part in: one
slow GPU shows in its whole row and column, and hardly moves anybody else's median. A pair far below what both its GPUs
reach with others is a path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ndctl.jobs.gpu_figures import Key
from ndctl.model.places import Node
from ndctl.parse.nvbandwidth import Matrix, Nvbandwidth

TEST = "multinode_device_to_device_memcpy_write_ce"
_PATH_SHARE = 0.9  # of what the slower of its two GPUs reaches with others
_FEWEST = 3  # copies by which a GPU can be told from its partners


@dataclass(frozen=True, slots=True)
class SlowPath:
    """A pair slow by itself. reached: what the slower of the two reaches with others, GB/s."""

    one: Key
    other: Key
    gb_per_s: float
    reached: float


def keys_of(nodes: Sequence[Node], gpus_per_node: int) -> list[Key]:
    """Which GPU each rank drives: ranks go node by node, each process takes the next GPU of its node."""
    return [(node.name, index) for node in nodes for index in range(gpus_per_node)]


def matrix_of(facts: Nvbandwidth, ranks: int) -> tuple[Matrix | None, str]:
    """The test's whole matrix, or why there is none that can be judged."""
    found = [test.values for test in facts.tests if test.name == TEST and test.status == "passed"]
    if not found:
        return None, f"no result of {TEST}"
    values = found[-1]
    if len(values) != ranks or any(len(row) != ranks for row in values):
        return None, f"a table of {len(values)} rows, where {ranks} GPUs took part"
    missing = sum(cell is None for i, row in enumerate(values) for j, cell in enumerate(row) if i != j)
    if missing:
        return None, f"{missing} pairs have no figure"
    return values, ""


def misplaced(facts: Nvbandwidth, ranks: int, gpus_per_node: int) -> str:
    """Why the ranks are not where they were to be, "" where they are. The head lists every process with its host."""
    if facts.processes != ranks:
        return f"{facts.processes} processes are listed, where {ranks} were started"
    places = [line.partition(":")[0].rsplit(" ", 1) for line in facts.gpus]
    if len(places) != ranks or any(len(place) != 2 for place in places):
        return "the list of processes is not understood, or names one GPU twice"
    for start in range(0, ranks, gpus_per_node):
        block = places[start : start + gpus_per_node]
        if len({host for host, _ in block}) > 1 or [place for _, place in block] != [
            str(index) for index in range(gpus_per_node)
        ]:
            return f"the processes {start} to {start + gpus_per_node - 1} are not the GPUs of one node"
    return ""


def typical(values: Matrix, keys: Sequence[Key]) -> dict[Key, float]:
    """GPU -> median of its copies, in the direction that is worse for it."""
    found: dict[Key, float] = {}
    for place, key in enumerate(keys):
        row = [cell for j, cell in enumerate(values[place]) if j != place and cell is not None]
        column = [line[place] for i, line in enumerate(values) if i != place]
        told = [cell for cell in column if cell is not None]
        if len(row) >= _FEWEST and len(told) >= _FEWEST:
            found[key] = min(median(row), median(told))
    return found


def slow_paths(values: Matrix, keys: Sequence[Key], reached: Mapping[Key, float]) -> list[SlowPath]:
    """Pairs far below both their GPUs' typical copies, worst first; a pair is told once, by its slower direction."""
    worst: dict[tuple[Key, Key], SlowPath] = {}
    for i, row in enumerate(values):
        for j, cell in enumerate(row):
            if i == j or cell is None or keys[i] not in reached or keys[j] not in reached:
                continue
            usual = min(reached[keys[i]], reached[keys[j]])
            pair = (keys[min(i, j)], keys[max(i, j)])
            if cell < _PATH_SHARE * usual and (pair not in worst or cell < worst[pair].gb_per_s):
                worst[pair] = SlowPath(*pair, cell, usual)
    return sorted(worst.values(), key=lambda path: path.gb_per_s / path.reached)
