"""One active test per rack at a time: a lease kept on the nodes themselves, so that operators on different
machines see each other. It names its holder and ends by itself at reboot or when its time is over.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ndctl.model.answers import Command
from ndctl.model.places import Node
from ndctl.model.runner import NodeRunner

# /run/lock is world-writable with the sticky bit on Debian and Ubuntu, and empty after a boot.
_WHERE = (
    'd="$NDCTL_SYSROOT"/run/lock; [ -d "$d" ] && [ -w "$d" ] || d="${HOME:-/tmp}/.cache"; '
    'mkdir -p "$d"; l="$d/ndctl-active-test"; '
)
_HELD = 75  # EX_TEMPFAIL


@dataclass(frozen=True, slots=True)
class Lease:
    """`held_by` is "" when the lease was taken on all of `nodes`, else who has it and since when."""

    nodes: tuple[Node, ...]
    token: str
    held_by: str = ""
    problem: str = ""

    @property
    def taken(self) -> bool:
        return not self.held_by and not self.problem


def take(runner: NodeRunner, nodes: Sequence[Node], holder: str, token: str, lifetime_s: int) -> Lease:
    """Take the lease on all nodes or on none.

    holder: for people, e.g. "ana@ops-1, run 2026-12-02T03-20"; token: unique to this run, needed to give it back.
    """
    script = (
        _WHERE + "now=$(date +%s); "
        f'if [ -f "$l/until" ] && [ "$(cat "$l/until")" -lt "$now" ]; then rm -rf "$l"; fi; '
        'if mkdir "$l" 2>/dev/null; then '
        f'printf "%s\\n" {shlex.quote(token)} > "$l/token"; printf "%s, since %s\\n" {shlex.quote(holder)} '
        f'"$(date -u +%FT%TZ)" > "$l/holder"; echo $((now + {int(lifetime_s)})) > "$l/until"; '
        f'elif [ "$(cat "$l/token" 2>/dev/null)" = {shlex.quote(token)} ]; then :; '
        f'else cat "$l/holder" 2>/dev/null || echo "somebody who left no name"; exit {_HELD}; fi'
    )
    answers = runner.ask({node: [Command("lease", script, timeout_s=10, cap_bytes=2_000)] for node in nodes})
    held, problems = "", ""
    for node in nodes:
        answer = answers[node]
        result = answer.results.get("lease")
        if result is None:
            problems = problems or f"{node.name}: {answer.outcome.kind.value} {answer.outcome.detail}".strip()
        elif result.exit_code == _HELD:
            held = held or f"{result.stdout.strip()} (on {node.name})"
        elif result.exit_code != 0:
            problems = problems or f"{node.name}: the lease could not be written: {result.stderr.strip()[:200]}"
    lease = Lease(tuple(nodes), token, held, problems)
    if not lease.taken:
        give_back(runner, lease)
    return lease


def give_back(runner: NodeRunner, lease: Lease) -> None:
    """Remove the lease wherever it is ours; a node that does not answer frees itself when the time is over."""
    script = _WHERE + f'[ "$(cat "$l/token" 2>/dev/null)" = {shlex.quote(lease.token)} ] && rm -rf "$l"; true'
    runner.ask({node: [Command("lease-back", script, timeout_s=10, cap_bytes=2_000)] for node in lease.nodes})
