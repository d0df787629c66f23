"""What asking many nodes costs the client, beside other tools: `python -m tests.bench fanout`.

One real sshd is all nodes (127.1.R.N); every node runs the same script. Client and server share the machine's cores
and a login costs the server more than any client, so wall time says nothing here: client CPU is compared, each client
a fresh process less its start-up, in interleaved rounds, as the median of the rounds' ratios. All sizes are run in
every round, so that a machine that gets slower meanwhile does so for all. A round in which a client lost a node does
not count for it, and a client without a round that counts misses its bars.

Prints a table, then the bars; exit 1 when one is missed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench import programs
from tests.bench.bars import Bar, strict_by_default, tell
from tests.bench.rounds import Measured, Sizes, per_round, ratio, rounds_of
from tests.ssh import sshd as openssh

OURS = "ndctl"
RELAY = "ndctl-relay"
MODULES = {"asyncssh": "asyncssh", "parallel-ssh": "pssh", RELAY: "ndctl.ssh.relay"}
CLIENTS = (OURS, RELAY, "asyncssh", "parallel-ssh", "pdsh", "clush", "ansible")
SIZES = (72, 288, 1152)
ROUNDS, ROUNDS_OF_MANY, MANY = 5, 3, 1000
# Left out where they would take minutes and no bar asks for them.
AT_MOST = {"ansible": 72}
# (nodes, rival, limit): ndctl's CPU is at most `limit` times the rival's.
LIMITS = (
    (288, "asyncssh", 1.3),
    (288, "parallel-ssh", 1.3),
    (288, "pdsh", 0.30),
    (288, "clush", 0.20),
    (1152, "asyncssh", 1.6),
)
RSS_NODES, RSS_MB = 1152, 120.0
RELAY_NODES, RELAY_LIMIT = 1152, 0.45
# The marginal CPU of a node between 72 and 288 and between 288 and 1,152: the larger is at most this much the smaller.
MARGINAL_SPREAD = 1.25
SLEEP_S, BYTES = 0.2, 20_000


def absent(client: str) -> str:
    """Why a client cannot run here; "" when it can."""
    if client in programs.PROGRAMS:
        return "" if programs.where(client) else f"no program {programs.PROGRAMS[client]}"
    module = MODULES.get(client)
    try:
        there = module is None or importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        there = False
    return "" if there else f"no module {module}"


def versions(clients: list[str]) -> list[str]:
    """One line for each tool that was measured beside ndctl."""
    lines = []
    for client in clients:
        if client in programs.PROGRAMS:
            lines.append(f"{client}: {programs.version(client)}")
        elif not client.startswith(OURS):
            lines.append(f"{client}: {importlib.metadata.version(client)}")
    return [*lines, f"paramiko: {importlib.metadata.version('paramiko')}"]


def rounds_for(nodes: int, rounds: int) -> int:
    return rounds if nodes < MANY else min(ROUNDS_OF_MANY, rounds)


def measure(
    sizes: list[int], clients: list[str], options: argparse.Namespace, told: Callable[[str], None]
) -> dict[int, dict[str, Measured]]:
    """Size -> client -> its rounds."""
    with (
        tempfile.TemporaryDirectory(prefix="ndctl-bench-") as folder,
        openssh.start(Path(folder) / "sshd", nodes=max(sizes), options=["LogLevel ERROR"]) as server,
    ):
        known = server.known_hosts.read_text().splitlines(keepends=True)
        wanted: list[Sizes] = []
        for nodes in sizes:
            # As many lines as there are nodes: what a larger file costs is part of a larger run.
            known_hosts = Path(folder) / f"known_hosts_{nodes}"
            known_hosts.write_text("".join(known[:nodes]))
            job = {
                "user": server.user,
                "port": server.port,
                "client_key": str(server.client_key),
                "known_hosts": str(known_hosts),
                "addresses": [node.address for node in server.nodes[:nodes]],
                "racks": [node.rack for node in server.nodes[:nodes]],
                "fanout": options.fanout,
                "sleep_s": SLEEP_S,
                "bytes": BYTES,
                "folder": folder,
            }
            here = [client for client in clients if nodes <= AT_MOST.get(client, nodes)]
            wanted.append(Sizes(nodes, rounds_for(nodes, options.rounds), here, job))
        return rounds_of(wanted, Path(folder), told)


def table(results: dict[int, dict[str, Measured]]) -> str:
    lines = [
        "| client | N | client CPU s | ms a node | start-up CPU s | peak RSS MB | ndctl / it | rounds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for nodes, found in results.items():
        for client, measured in found.items():
            cpu, against = measured.median_s, ratio(found[OURS], measured)
            good = sum(value is not None for value in measured.cpu_s)
            cells = (
                client,
                f"{nodes:,}",
                f"{cpu:.2f}" if cpu is not None else "–",
                f"{1000 * cpu / nodes:.1f}" if cpu is not None else "–",
                f"{measured.start_s:.2f}",
                f"{measured.rss_mb:.0f}",
                f"{against:.2f}" if against is not None else "–",
                f"{good}/{len(measured.cpu_s)}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def judge(results: dict[int, dict[str, Measured]], missing: dict[str, str]) -> list[Bar]:
    """Every bar of the sizes that were run. missing: clients that are not here -> why."""
    bars = []
    for nodes, rival, limit in LIMITS:
        found = results.get(nodes)
        if found is None or (rival not in found and rival not in missing):
            continue
        value = ratio(found[OURS], found[rival]) if rival in found else None
        bars.append(Bar(f"cpu-vs-{rival}-{nodes}", value, limit, missing.get(rival, "")))
    ours = {nodes: found[OURS] for nodes, found in results.items()}
    if RSS_NODES in ours:
        whole = ours[RSS_NODES].median_s is not None
        bars.append(Bar(f"rss-mb-{RSS_NODES}", ours[RSS_NODES].rss_mb if whole else None, RSS_MB))
    if RELAY_NODES in ours and (RELAY in missing or RELAY in results[RELAY_NODES]):
        relayed = results[RELAY_NODES].get(RELAY)
        value = ratio(relayed, ours[RELAY_NODES]) if relayed is not None else None
        bars.append(Bar(f"relay-vs-direct-{RELAY_NODES}", value, RELAY_LIMIT, missing.get(RELAY, "")))
    if len(ours) >= 3:
        bars.append(Bar("marginal-cpu-spread", marginal_spread(ours), MARGINAL_SPREAD))
    return bars


def marginal_spread(ours: dict[int, Measured]) -> float | None:
    """The marginal CPU of a node in the last step of sizes against that in the first: the larger by the smaller, as
    the median over rounds."""

    def spread(*cpu: float) -> float:
        steps = itertools.pairwise(zip(sorted(ours), cpu, strict=True))
        slopes = [(later - before) / (more - fewer) for (fewer, before), (more, later) in steps]
        first, last = slopes[0], slopes[-1]
        return max(first, last) / min(first, last) if min(first, last) > 0 else float("inf")

    return per_round([ours[nodes] for nodes in sorted(ours)], spread)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of nodes (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{ROUNDS_OF_MANY} at most from {MANY} nodes on")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="(default: %(default)s)")
    parser.add_argument("--fanout", type=int, default=64)
    parser.add_argument("--strict", action="store_true", default=strict_by_default(), help="a skipped bar is missed")
    options = parser.parse_args(arguments)
    wanted = list(dict.fromkeys([OURS, *options.clients.split(",")]))
    if unknown := [client for client in wanted if client not in CLIENTS]:
        parser.error(f"unknown clients: {', '.join(unknown)}")
    missing = {client: why for client in wanted if (why := absent(client))}
    clients = [client for client in wanted if client not in missing]
    sizes = sorted(int(text) for text in options.sizes.split(","))
    results = measure(sizes, clients, options, lambda line: print(f"  {line}", file=sys.stderr, flush=True))
    print(
        f"### Collecting alone\n\n{BYTES // 1000} kB a node after {SLEEP_S:g} s, {options.fanout} nodes at once; ",
        end="",
    )
    print("the median of the rounds.\n")
    print(table(results))
    print("\n" + "; ".join(versions(clients)))
    for client, why in missing.items():
        print(f"\nnot measured: {client}: {why}")
    for nodes, found in results.items():
        for client, measured in found.items():
            for loss in measured.losses:
                print(f"\nlost: {client} at {nodes}: {loss}")
    print()
    return tell(judge(results, missing), strict=options.strict)


if __name__ == "__main__":
    sys.exit(main())
