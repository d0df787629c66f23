"""ib_write_bw between non-overlapping pairs of nodes, rail by rail.

In each round every node is in at most one pair; its lower-named node serves and the other sends. Rails of a pair run
one after another, so that a figure belongs to one rail alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ndctl.model.answers import Command
from ndctl.model.places import Node
from ndctl.model.runner import NodeRunner

MESSAGE_BYTES = 8 * 1024 * 1024
_FIRST_PORT = 18515  # perftest's own default; one port per rail


@dataclass(frozen=True, slots=True)
class PairText:
    """One rail of one pair: what client and server printed. `problem` says why there is no result."""

    server: Node
    client: Node
    device: str
    client_text: str
    server_text: str
    problem: str = ""


def _rail_command(device: str, port: int, iterations: int, server: str) -> str:
    """Server when `server` is "", else the client that sends to it."""
    return f"ib_write_bw -d {device} -s {MESSAGE_BYTES} -n {iterations} -F --report_gbits -p {port}" + (
        f" {server}" if server else ""
    )


def side_commands(devices: Sequence[str], iterations: int, server: str, rail_s: float) -> list[Command]:
    """One command per rail. The client tries again for some seconds, since the server may not listen yet."""
    commands = []
    for number, device in enumerate(devices):
        line = _rail_command(device, _FIRST_PORT + number, iterations, server)
        if server:
            # Exit 1 at once is "Couldn't connect": the server side is still starting.
            line = (
                f"n=0; while :; do o=$({line} 2>&1); r=$?; [ $r -eq 0 ] && break; n=$((n + 1)); "
                "case $o in *ouldn?t\\ connect*) [ $n -lt 20 ] || break; sleep 0.5;; *) break;; esac; done; "
                'printf "%s\\n" "$o"; exit $r'
            )
        commands.append(Command(f"ib-write-bw-{device}", line, timeout_s=rail_s, cap_bytes=100_000))
    return commands


def run_round(
    runner: NodeRunner,
    pairs: Sequence[tuple[Node, Node]],
    devices: Sequence[str],
    *,
    iterations: int = 2000,
    rail_s: float = 30.0,
) -> list[PairText]:
    """One round; a result for every pair and rail, in order."""
    requests: dict[Node, list[Command]] = {}
    for server, client in pairs:
        requests[server] = side_commands(devices, iterations, "", rail_s)
        requests[client] = side_commands(devices, iterations, server.address, rail_s)
    answers = runner.ask(requests)
    texts = []
    for server, client in pairs:
        for device in devices:
            command = f"ib-write-bw-{device}"
            sent = answers[client].results.get(command)
            served = answers[server].results.get(command)
            problem = ""
            if sent is None:
                problem = f"{client.name}: {answers[client].outcome.kind.value} {answers[client].outcome.detail}"
            elif served is None:
                problem = f"{server.name}: {answers[server].outcome.kind.value} {answers[server].outcome.detail}"
            elif sent.timed_out or served.timed_out:
                problem = f"no end within {rail_s:.0f} s"
            elif sent.missing_tool or served.missing_tool:
                problem = f"ib_write_bw is not installed on {(client if sent.missing_tool else server).name}"
            texts.append(
                PairText(
                    server,
                    client,
                    device,
                    (sent.stdout + sent.stderr) if sent else "",
                    (served.stdout + served.stderr) if served else "",
                    problem.strip(),
                )
            )
    return texts
