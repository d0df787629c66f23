"""Interleaved rounds of contestants, each a fresh process, and what is made of their figures."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import programs
from tests.bench.cost import TreeMemory

CLIENT_LIMIT_S = 900


@dataclass
class Measured:
    """The rounds of one client at one size: CPU s (None: the round lost nodes), start-up, and the highest memory."""

    cpu_s: list[float | None] = field(default_factory=list)
    start_s: float = 0.0
    rss_mb: float = 0.0
    losses: list[str] = field(default_factory=list)

    @property
    def median_s(self) -> float | None:
        good = [value for value in self.cpu_s if value is not None]
        return statistics.median(good) if good else None


@dataclass
class Sizes:
    """One size: who is measured at it, how often, and the job they are handed."""

    nodes: int
    rounds: int
    clients: list[str]
    job: dict[str, Any]


def per_round(several: list[Measured], figure: Callable[..., float]) -> float | None:
    """Median over the rounds in which all of them answered for every node of a figure of their CPU seconds."""
    values = [
        figure(*row)
        for row in zip(*(one.cpu_s for one in several), strict=False)
        if all(cpu is not None for cpu in row)
    ]
    return statistics.median(values) if values else None


def ratio(ours: Measured, theirs: Measured) -> float | None:
    """Median of the per-round ratios."""
    return per_round([ours, theirs], lambda mine, other: mine / other)


def rounds_of(sizes: list[Sizes], folder: Path, told: Callable[[str], None]) -> dict[int, dict[str, Measured]]:
    """Size -> client -> its rounds. Another client begins each round, so that none always follows the same one."""
    found = {one.nodes: {client: Measured() for client in one.clients} for one in sizes}
    for number in range(max(one.rounds for one in sizes)):
        for one in sizes:
            if number >= one.rounds:
                continue
            file = folder / f"job_{one.nodes}.json"
            file.write_text(json.dumps(one.job))
            first = number % len(one.clients)
            for client in one.clients[first:] + one.clients[:first]:
                result = run_client(client, file)
                note(found[one.nodes][client], result, one.nodes)
                told(f"N={one.nodes} round {number + 1}/{one.rounds} {client} {result.get('cpu_s', 'lost')}")
    return found


def run_client(client: str, job: Path) -> dict[str, Any]:
    """One fresh process; its own JSON line, or {"error": …}."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.clients", client, str(job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    memory = TreeMemory(process.pid)
    if client in programs.PROGRAMS:
        memory.start()
    try:
        out, err = process.communicate(timeout=CLIENT_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"error": [f"not done after {CLIENT_LIMIT_S} s"]}
    if process.returncode != 0 or not out.strip():
        return {"error": err.strip().splitlines()[-1:] or [f"exit {process.returncode}"]}
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    if client in programs.PROGRAMS:
        result["rss_mb"] = memory.end()
    return {**result, "stderr": err.strip().splitlines()[-1:]}


def note(measured: Measured, result: dict[str, Any], nodes: int) -> None:
    if "error" in result or result["answers"] != nodes:
        lost = result.get("error") or [f"{result['answers']} of {nodes} nodes answered", *result["stderr"]]
        measured.losses.append("; ".join(lost))
        measured.cpu_s.append(None)
        return
    measured.cpu_s.append(result["cpu_s"])
    measured.start_s = result["start_cpu_s"]
    measured.rss_mb = max(measured.rss_mb, result["rss_mb"])
