"""What asking many nodes costs the client, beside other tools: `python -m tests.bench.fanout` (or `make bench`).

One real sshd is all nodes (127.1.R.N); every node runs the same script. Client and server share the machine's cores
and a login costs the server more than any client, so wall time says nothing here: client CPU is compared, each client
a fresh process less its start-up, in interleaved rounds, as the median of the rounds' ratios. A round in which a client
lost a node does not count for it, and a client without a round that counts misses its bars.

Prints a table, then `BAR name value limit ok|MISSED` for each bar; exit 1 when one is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ssh import sshd as openssh

OURS = "ndctl"
NEEDS_PROGRAM = {"pdsh": "pdsh", "clush": "clush"}
NEEDS_MODULE = {"asyncssh": "asyncssh", "parallel-ssh": "pssh"}
CLIENT_LIMIT_S = 900


@dataclass(frozen=True)
class Bar:
    """ndctl's CPU at `nodes` nodes is at most `limit` times the rival's; without a rival: its peak memory in MB."""

    nodes: int
    rival: str
    limit: float

    @property
    def name(self) -> str:
        return f"cpu-vs-{self.rival}-{self.nodes}" if self.rival else f"rss-mb-{self.nodes}"


BARS = (
    Bar(288, "asyncssh", 1.5),
    Bar(288, "pdsh", 0.35),
    Bar(288, "clush", 0.20),
    Bar(288, "parallel-ssh", 1.3),
    Bar(288, "", 120),
    Bar(1152, "asyncssh", 1.6),
    Bar(1152, "", 120),
)
# What must be held by every machine; the others are judged where their tool is there.
REQUIRED_RIVALS = ("asyncssh", "pdsh")
# The marginal CPU of a node may not grow with their number: from one step of sizes to the next at most this much.
MARGINAL_SPREAD = 1.25


@dataclass
class Measured:
    """The rounds of one client at one size: CPU s (None: the round lost nodes) and the highest memory in MB."""

    cpu_s: list[float | None] = field(default_factory=list)
    rss_mb: float = 0.0
    losses: list[str] = field(default_factory=list)

    @property
    def median_s(self) -> float | None:
        good = [value for value in self.cpu_s if value is not None]
        return statistics.median(good) if good else None


def ratio(ours: Measured, theirs: Measured) -> float | None:
    """Median of the per-round ratios, over rounds in which both answered for every node."""
    pairs = [
        mine / other
        for mine, other in zip(ours.cpu_s, theirs.cpu_s, strict=True)
        if mine is not None and other is not None
    ]
    return statistics.median(pairs) if pairs else None


def present(clients: list[str]) -> tuple[list[str], list[str]]:
    """(clients that can run here, those that cannot, in words)."""
    there, absent = [], []
    for client in clients:
        program, module = NEEDS_PROGRAM.get(client), NEEDS_MODULE.get(client)
        if program and shutil.which(program) is None:
            absent.append(f"{client}: no program {program}")
        elif module and importlib.util.find_spec(module) is None:
            absent.append(f"{client}: no module {module}")
        else:
            there.append(client)
    return there, absent


def run_client(client: str, job: Path) -> dict[str, Any]:
    """One fresh process; its own JSON line."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.clients", client, str(job)],
        capture_output=True,
        text=True,
        timeout=CLIENT_LIMIT_S,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    result["stderr"] = done.stderr.strip().splitlines()[-1:]
    return result


def measure(nodes: int, rounds: int, clients: list[str], options: argparse.Namespace) -> dict[str, Measured]:
    found = {client: Measured() for client in clients}
    with (
        tempfile.TemporaryDirectory(prefix="ndctl-bench-") as folder,
        openssh.start(Path(folder) / "sshd", nodes=nodes, options=["LogLevel ERROR"]) as server,
    ):
        job = Path(folder) / "job.json"
        job.write_text(
            json.dumps(
                {
                    "user": server.user,
                    "port": server.port,
                    "client_key": str(server.client_key),
                    "known_hosts": str(server.known_hosts),
                    "addresses": [node.address for node in server.nodes],
                    "fanout": options.fanout,
                    "sleep_s": 0.2,
                    "bytes": 20_000,
                }
            )
        )
        for number in range(rounds):
            # Another one begins each round, so that none always follows the same one.
            first = number % len(clients)
            for client in clients[first:] + clients[:first]:
                note(found[client], run_client(client, job), nodes)
                print(f"  N={nodes} round {number + 1}/{rounds} {client}", file=sys.stderr, flush=True)
    return found


def note(measured: Measured, result: dict[str, Any], nodes: int) -> None:
    if "error" in result or result["answers"] != nodes:
        lost = result.get("error") or [f"{result['answers']} of {nodes} nodes answered", *result["stderr"]]
        measured.losses.append("; ".join(lost))
        measured.cpu_s.append(None)
        return
    measured.cpu_s.append(result["cpu_s"])
    measured.rss_mb = max(measured.rss_mb, result["rss_mb"])


def table(results: dict[int, dict[str, Measured]]) -> str:
    lines = [
        "| client | N | client CPU s | ms a node | peak RSS MB | ndctl / it | rounds |",
        "|---|---|---|---|---|---|---|",
    ]
    for nodes, found in results.items():
        for client, measured in found.items():
            cpu, against = measured.median_s, ratio(found[OURS], measured)
            good = sum(value is not None for value in measured.cpu_s)
            cells = (
                client,
                str(nodes),
                f"{cpu:.2f}" if cpu is not None else "–",
                f"{1000 * cpu / nodes:.1f}" if cpu is not None else "–",
                # Of a client that is many processes only the first one's memory would be seen.
                f"{measured.rss_mb:.0f}" if client not in NEEDS_PROGRAM else "–",
                f"{against:.2f}" if against is not None else "–",
                f"{good}/{len(measured.cpu_s)}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def judge(results: dict[int, dict[str, Measured]]) -> list[tuple[str, float | None, float]]:
    """(name, value or None when it could not be measured, limit) of every bar that applies to what was run."""
    judged: list[tuple[str, float | None, float]] = []
    for bar in BARS:
        found = results.get(bar.nodes)
        if found is None or (bar.rival and bar.rival not in found):
            continue
        ours = found[OURS]
        if bar.rival:
            judged.append((bar.name, ratio(ours, found[bar.rival]), bar.limit))
        else:
            judged.append((bar.name, ours.rss_mb if ours.median_s is not None else None, bar.limit))
    steps = marginal(results)
    if len(steps) == 2:
        judged.append(("marginal-cpu-growth", steps[1] / steps[0], MARGINAL_SPREAD))
    return judged


def marginal(results: dict[int, dict[str, Measured]]) -> list[float]:
    """ndctl's CPU s for each further node, between the sizes that were run."""
    points = [(nodes, found[OURS].median_s) for nodes, found in sorted(results.items())]
    known = [(nodes, cpu) for nodes, cpu in points if cpu is not None]
    return [(cpu - cpu0) / (nodes - nodes0) for (nodes0, cpu0), (nodes, cpu) in itertools.pairwise(known)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="72,288", help="numbers of nodes (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per size; 3 at most beyond 1,000 nodes")
    parser.add_argument("--clients", default="ndctl,asyncssh,parallel-ssh,pdsh,clush")
    parser.add_argument("--fanout", type=int, default=64)
    options = parser.parse_args()
    clients, absent = present(list(dict.fromkeys([OURS, *options.clients.split(",")])))
    results = {}
    for size in sorted(int(text) for text in options.sizes.split(",")):
        rounds = options.rounds if size < 1000 else min(3, options.rounds)
        results[size] = measure(size, rounds, clients, options)
    print(table(results))
    for line in absent:
        print(f"not measured: {line}")
    for size, found in results.items():
        for client, measured in found.items():
            for loss in measured.losses:
                print(f"lost: {client} at {size}: {loss}")
    missed = False
    for name, value, limit in judge(results):
        ok = value is not None and value <= limit
        missed = missed or not ok
        print(f"BAR {name} {'-' if value is None else f'{value:.3f}'} {limit:g} {'ok' if ok else 'MISSED'}")
    for rival in REQUIRED_RIVALS:
        if rival not in clients and rival in options.clients.split(","):
            print(f"BAR cpu-vs-{rival}-288 - - MISSED")
            missed = True
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
