"""ib_write_bw between non-overlapping pairs of nodes, rail by rail.

In each round every node is in at most one pair; one end serves and the other sends. The servers of all rails wait from
the start, so that a rail that fails does not spoil the next ones; the client takes rail after rail, so that a figure
belongs to one rail alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ndctl.jobs.nccl_scripts import end_script
from ndctl.model.answers import Command, CommandResult, NodeAnswer
from ndctl.model.places import Node
from ndctl.model.runner import NodeRunner

MESSAGE_BYTES = 8 * 1024 * 1024
_FIRST_PORT = 18515  # perftest's own default; one port per rail
_START_S = 10.0  # how much later the other side may be up
_SERVER = "ib-write-bw-server"
_ENDED = (124, 137, 143)


@dataclass(frozen=True, slots=True)
class PairText:
    """One rail of one pair: what client and server printed. `problem` says why there is no result."""

    server: Node
    client: Node
    device: str
    client_text: str
    server_text: str
    problem: str = ""


def _rail(device: str, place: int, iterations: int, server: str = "") -> str:
    """Server when `server` is "", else the client that sends to it."""
    port = _FIRST_PORT + place
    line = f"ib_write_bw -d {shlex.quote(device)} -s {MESSAGE_BYTES} -n {iterations} -F --report_gbits -p {port}"
    return f"{line} {shlex.quote(server)}" if server else line


def server_command(devices: Sequence[str], iterations: int, rail_s: float, token: str) -> Command:
    """All rails wait side by side; each ends after its client, or when its client can't come any more."""
    total = len(devices) * rail_s + _START_S
    parts = [f"export NDCTL_JOB={token}:; d=$(mktemp -d) || exit 1; trap 'rm -rf \"$d\"' EXIT; "]
    for place, device in enumerate(devices):
        waits = (place + 1) * rail_s + _START_S
        rail = _rail(device, place, iterations)
        parts.append(f'(timeout -k 2 {waits:.0f} {rail} > "$d/{place}" 2>&1; echo $? > "$d/{place}.code") & ')
    parts.append("wait; ")
    for place, device in enumerate(devices):
        parts.append(f'echo "{_mark(token)} {device} $(cat "$d/{place}.code")"; cat "$d/{place}"; echo; ')
    return Command(_SERVER, "".join(parts), timeout_s=total + 10, cap_bytes=400_000)


def client_commands(
    devices: Sequence[str], iterations: int, server: str, rail_s: float, token: str
) -> tuple[Command, ...]:
    """One command per rail. "Couldn't connect" at once means that the server does not listen yet: it is tried again,
    longest for the first rail."""
    commands = []
    for place, device in enumerate(devices):
        tries = int(_START_S / 0.5) if place == 0 else 4
        commands.append(
            Command(
                f"ib-write-bw-{device}",
                f"export NDCTL_JOB={token}:; n=0; "
                f"while :; do o=$({_rail(device, place, iterations, server)} 2>&1); r=$?; "
                f"[ $r -eq 0 ] && break; n=$((n + 1)); case $o in *ouldn?t\\ connect*) [ $n -lt {tries} ] || break; "
                'sleep 0.5;; *) break;; esac; done; printf "%s\\n" "$o"; exit $r',
                timeout_s=rail_s,
                cap_bytes=100_000,
            )
        )
    return tuple(commands)


def run_round(
    runner: NodeRunner,
    pairs: Sequence[tuple[Node, Node]],
    devices: Sequence[str],
    *,
    token: str,
    iterations: int = 2000,
    rail_s: float = 20.0,
) -> list[PairText]:
    """One round of (server, client) pairs; a result for every pair and rail, in order.

    token: marks the processes of this round. None of them is left behind, also when the runner raises (Ctrl-C).
    """
    serve = {server: [server_command(devices, iterations, rail_s, token)] for server, _ in pairs}
    send = {client: client_commands(devices, iterations, server.address, rail_s, token) for server, client in pairs}
    with ThreadPoolExecutor(max_workers=1) as pool:
        serving = pool.submit(runner.ask, serve)
        try:
            sent = runner.ask(send)
            unmet = [server for server, client in pairs if not _all_ended_well(sent[client], devices)]
            if unmet:
                end_round(runner, unmet, token)
        except BaseException:
            end_round(runner, [node for pair in pairs for node in pair], token)
            raise
        served = serving.result()
    return [
        _text(server, client, device, sent[client], _sections(served[server], token), served[server], rail_s)
        for server, client in pairs
        for device in devices
    ]


def end_round(runner: NodeRunner, nodes: Sequence[Node], token: str) -> None:
    """End what waits or runs there; whoever asked for it then gets its answer."""
    runner.ask({node: [Command("ib-write-bw-end", end_script(token), timeout_s=20, cap_bytes=4_000)] for node in nodes})


def _mark(token: str) -> str:
    return f"ndctl-rail-{token}:"


def _all_ended_well(answer: NodeAnswer, devices: Sequence[str]) -> bool:
    results = [answer.results.get(f"ib-write-bw-{device}") for device in devices]
    return all(result is not None and result.exit_code == 0 for result in results)


def _sections(answer: NodeAnswer, token: str) -> Mapping[str, tuple[str, int | None]]:
    """Device -> what its server printed, and its exit code."""
    result = answer.results.get(_SERVER)
    sections: dict[str, tuple[str, int | None]] = {}
    for part in (result.stdout if result else "").split(f"{_mark(token)} ")[1:]:
        head, _, text = part.partition("\n")
        device, _, code = head.partition(" ")
        sections[device] = (text, int(code) if code.isdigit() else None)
    return sections


def _text(
    server: Node,
    client: Node,
    device: str,
    sent: NodeAnswer,
    sections: Mapping[str, tuple[str, int | None]],
    served: NodeAnswer,
    rail_s: float,
) -> PairText:
    result: CommandResult | None = sent.results.get(f"ib-write-bw-{device}")
    server_text, server_code = sections.get(device, ("", None))
    problem = ""
    if result is None:
        problem = f"{client.name}: {sent.outcome.kind.value} {sent.outcome.detail}"
    elif device not in sections:
        problem = f"{server.name}: {served.outcome.kind.value} {served.outcome.detail}"
    elif result.timed_out or result.exit_code in _ENDED:
        problem = f"no end within {rail_s:.0f} s"
    elif result.missing_tool or server_code == 127:
        problem = f"ib_write_bw is not installed on {(client if result.missing_tool else server).name}"
    client_text = (result.stdout + result.stderr) if result else ""
    return PairText(server, client, device, client_text, server_text, problem.strip())
