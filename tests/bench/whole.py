"""What the whole of `ndctl validate --level quick` costs, and where it goes: `python -m tests.bench whole`.

The real program asks 64 racks of 18 loopback nodes, whose answers come from files (see `tests.bench.cluster`); beside
it asyncssh runs the same command on the same nodes and keeps the bytes. Interleaved rounds, client CPU less start-up,
median of the rounds' ratios. One more round, with the program's seams timed, says where the CPU goes; its total is a
few per cent higher, and its shares are those of the table.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, strict_by_default, tell
from tests.bench.cluster import PER_RACK, standing
from tests.bench.fanout import absent
from tests.bench.quick_cost import quick_commands
from tests.bench.rounds import Measured, Sizes, ratio, rounds_of, run_client
from tests.bench.sections import SECTIONS, TEXT

OURS, RIVAL = "ndctl-whole", "asyncssh"
RACKS, ROUNDS, LIMIT = 64, 3, 3.0
SHOWN = 8  # of the other parsers
TRIES = 3  # a node lost on a busy machine is no answer


def measure(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Measured], dict[str, Any], float]:
    """(client -> its rounds, CPU seconds by section, kilobytes a node)."""
    from ndctl.ssh.script import exec_line, new_nonce

    commands = quick_commands()
    with standing(folder / "cluster", options.racks, commands) as cluster:
        print(f"  {options.racks} racks stand", file=sys.stderr, flush=True)
        nodes = len(cluster.sizes)
        where = folder / "where.json"
        job = {
            "user": cluster.server.user,
            "port": cluster.server.port,
            "client_key": str(cluster.server.client_key),
            "known_hosts": str(cluster.server.known_hosts),
            "addresses": [node.address for node in cluster.server.nodes],
            "inventory": str(cluster.inventory),
            "fanout": options.fanout,
            "script": exec_line(commands, new_nonce())[0],
            "bytes": 0,
            "folder": str(folder),
        }
        clients = [OURS] if absent(RIVAL) else [OURS, RIVAL]
        told = lambda line: print(f"  {line}", file=sys.stderr, flush=True)  # noqa: E731
        found = rounds_of([Sizes(nodes, options.rounds, clients, job)], folder, told)[nodes]
        file = folder / "where_job.json"
        file.write_text(json.dumps({**job, "where": str(where)}))
        for _ in range(TRIES):
            result = run_client(OURS, file)
            if where.exists():
                break
        else:
            raise RuntimeError(f"the timed round failed {TRIES} times: {result}")
        return found, json.loads(where.read_text()), sum(cluster.sizes.values()) / nodes / 1000


def where_lines(where: dict[str, Any], nodes: int) -> list[str]:
    """Rows of the table, and the dearest of the other parsers by name."""
    whole, spent, calls = where["cpu_s"], dict(where["spent"]), dict(where["calls"])
    parsers = sorted((name for name in spent if name.startswith(TEXT)), key=lambda name: -spent[name])
    rows = {**spent, "other": whole - sum(spent.values()), "other text parsing": sum(spent[name] for name in parsers)}
    calls["other text parsing"] = sum(calls[name] for name in parsers)
    lines = []
    for name in (*SECTIONS, *parsers[:SHOWN]):
        used = rows.get(name, 0.0)
        lines.append(f"| {name} | {1000 * used / nodes:.2f} | {used / whole:.0%} | {calls.get(name, '')} |")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--racks", type=int, default=RACKS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--fanout", type=int, default=64)
    parser.add_argument("--strict", action="store_true", default=strict_by_default(), help="a skipped bar is missed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ndctl-bench-") as folder:
        found, where, kilobytes = measure(options, Path(folder))
    nodes = options.racks * PER_RACK
    print(f"### The whole of `validate --level quick`\n\n{nodes:,} nodes, {kilobytes:.0f} kB of text from each.\n")
    print("| client | CPU s | ms a node | peak RSS MB | rounds |\n|---|---|---|---|---|")
    for client, measured in found.items():
        cpu = measured.median_s
        shown = ("–", "–") if cpu is None else (f"{cpu:.2f}", f"{1000 * cpu / nodes:.2f}")
        good = sum(value is not None for value in measured.cpu_s)
        print(f"| {client} | {shown[0]} | {shown[1]} | {measured.rss_mb:.0f} | {good}/{len(measured.cpu_s)} |")
    print("\n| where | ms a node | share | calls |\n|---|---|---|---|")
    for line in where_lines(where, nodes):
        print(line)
    print()
    for client, measured in found.items():
        for loss in measured.losses:
            print(f"lost: {client}: {loss}\n")
    why = absent(RIVAL)
    value = None if why else ratio(found[OURS], found[RIVAL])
    return tell(
        [Bar(f"whole-vs-{RIVAL}-{nodes}", value, LIMIT, f"{RIVAL}: {why}" if why else "")], strict=options.strict
    )


if __name__ == "__main__":
    sys.exit(main())
