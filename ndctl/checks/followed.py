"""Counters of a node worth following from run to run: recoveries of NVLinks and rows of memory that were remapped.

Read from what the passive checks asked anyway. Only what is not zero is kept: of a healthy rack that is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from ndctl.checks import commands
from ndctl.checks.gpus import gpus_of
from ndctl.checks.read_once import link_errors_of
from ndctl.model.answers import NodeAnswer

Row = Mapping[str, object]


def followed(answer: NodeAnswer) -> list[Row]:
    """{node, metric, subject, value, unit} of every such counter that is not zero. Never raises."""
    return [*_recoveries(answer), *_remapped(answer)]


def _recoveries(answer: NodeAnswer) -> list[Row]:
    result = answer.results.get(commands.NVLINK_ERRORS_AFTER.id)
    if result is None or not result.stdout:
        return []
    rows = []
    totals: dict[int, int] = {}  # links that print the same share their counters
    for gpu in link_errors_of(result.stdout).gpus:
        for link in gpu.links:
            total = totals.get(id(link.counters))
            if total is None:
                total = sum(count for name, count in link.counters.items() if count and "recover" in name.lower())
                totals[id(link.counters)] = total
            if total and gpu.index is not None:
                rows.append(_row(answer, "nvlink.recoveries", f"GPU {gpu.index} link {link.link}", total, "recoveries"))
    return rows


def _remapped(answer: NodeAnswer) -> list[Row]:
    facts = gpus_of(answer)
    return [
        _row(answer, "gpu.remapped-rows", f"GPU {gpu.index}", gpu.remapped_rows.correctable, "rows")
        for gpu in (facts.gpus if facts else ())
        if gpu.remapped_rows.correctable
    ]


def _row(answer: NodeAnswer, metric: str, subject: str, value: int, unit: str) -> Row:
    return {"node": answer.node.name, "metric": metric, "subject": subject, "value": value, "unit": unit}
