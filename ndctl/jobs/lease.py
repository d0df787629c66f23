"""One active test per rack at a time: a lease kept on the nodes themselves, so that operators on different
machines see each other. It names its holder and ends by itself at reboot or when its time is over; earlier it is taken
over by the machine of its holder, once that process is gone.

A lease is one file with four lines: until when (seconds since 1970 by the node's clock), token, holder, and the process
of `lease_process` (which an earlier ndctl did not write).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ndctl.jobs.lease_process import is_gone, this_process
from ndctl.jobs.nccl_scripts import end_all_script
from ndctl.model.answers import Command, NodeAnswer, OutcomeKind
from ndctl.model.places import Node
from ndctl.model.runner import NodeRunner

# /run/lock is world-writable with the sticky bit on Debian and Ubuntu, and empty after a boot. A home directory may
# be shared by many nodes. The directory itself is locked for the moment, so that two do not end one old lease at once.
_OPEN = (
    'umask 022; d="$NDCTL_SYSROOT"/run/lock; [ -d "$d" ] && [ -w "$d" ] || d="${HOME:-/tmp}/.cache/$(uname -n)"; '
    'mkdir -p "$d" || exit 1; l="$d/ndctl-active-test"; '
    '[ ! -r "$d" ] || { exec 9< "$d" && flock -w 5 9 2>/dev/null; }; '
    "until=; token=; holder=; process=; "
    '[ ! -r "$l" ] || { read -r until; read -r token; read -r holder; read -r process; } < "$l"; '
)
_HELD = 75  # EX_TEMPFAIL
_YEAR_10000 = 253_402_300_800
# What somebody else wrote becomes part of a script that ends processes: nothing short, nothing odd.
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{5,99}")
_LAUNCHES = ("-", "x")  # behind a run's token: of one rack, of several
_NAMELESS = "somebody who left no name"


@dataclass(frozen=True, slots=True)
class Lease:
    """`held_by` is "" when the lease was taken on all of `nodes`, else who has it, since when and until when."""

    nodes: tuple[Node, ...]
    token: str
    held_by: str = ""
    problem: str = ""

    @property
    def taken(self) -> bool:
        return not self.held_by and not self.problem


def take(runner: NodeRunner, nodes: Sequence[Node], holder: str, token: str, lifetime_s: int) -> Lease:
    """Take the lease on all nodes or on none; taking one's own again makes it last longer.

    holder: for people, e.g. "first@ops-1, run 2026-12-02T03-20"; token: unique to this run, needed to give it back.
    The first node decides between two who come at once.
    """
    lease = Lease(tuple(nodes), token)
    try:
        for some in (lease.nodes[:1], lease.nodes[1:]):
            lease = _take(runner, lease, some, holder, lifetime_s)
            if not lease.taken:
                break
    except BaseException:
        give_back(runner, lease)
        raise
    if not lease.taken:
        give_back(runner, lease)
    return lease


def renew(runner: NodeRunner, lease: Lease, holder: str, lifetime_s: int) -> Lease:
    """Make a lease that was taken last longer. What comes back is not taken if somebody else has it by now; it then
    still has to be given back where it is ours."""
    return _take(runner, lease, lease.nodes, holder, lifetime_s)


def give_back(runner: NodeRunner, lease: Lease) -> None:
    """Remove the lease wherever it is ours; a node that does not answer frees itself when the time is over."""
    script = _OPEN + f'[ "$token" != {shlex.quote(lease.token)} ] || rm -f "$l"'
    runner.ask({node: [Command("lease-back", script, timeout_s=15, cap_bytes=2_000)] for node in lease.nodes})


# Who holds the node just now: holder, token, process and end, or nothing. Reads only.
LOOK = Command(
    "lease-look",
    'l="$NDCTL_SYSROOT"/run/lock/ndctl-active-test; '
    '[ -r "$l" ] || l="${HOME:-/tmp}/.cache/$(uname -n)/ndctl-active-test"; '
    '[ -r "$l" ] || exit 0; process=; '
    '{ read -r until; read -r token; read -r holder; read -r process; } < "$l"; '
    'case "$until" in "" | *[!0-9]* | ?????????????*) exit 0 ;; esac; '
    '[ "$until" -lt "$(date +%s)" ] || printf "%s\\n" "$holder" "$token" "$process" "$until"',
    timeout_s=15,
    cap_bytes=2_000,
)


def holder_in(answer: NodeAnswer, token: str) -> str:
    """Who holds the node that was asked `LOOK`, "" when nobody does, it is held under `token`, or was by a process of
    this machine that is gone."""
    result = answer.results.get(LOOK.id)
    theirs = _Held.read(result.stdout) if result is not None else None
    return theirs.who if theirs and theirs.token and theirs.token != token and not is_gone(theirs.process) else ""


@dataclass(frozen=True, slots=True)
class _Held:
    """What a node says of a lease that it has."""

    who: str
    token: str
    process: str

    @classmethod
    def read(cls, stdout: str) -> _Held:
        """Of four lines: holder, token, process, end."""
        holder, token, process, until = [*map(_one_line, stdout.split("\n")), "", "", "", ""][:4]
        ends = ""
        if until.isascii() and until.isdigit() and 0 < int(until) < _YEAR_10000:
            at = datetime.fromtimestamp(int(until), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ends = f"; unless it is renewed, the lease ends by itself at {at}"
        return cls((holder or _NAMELESS) + ends, token, process)


def _take_script(holder: str, token: str, lifetime_s: int, over: str) -> str:
    """over: the process of a lease whose holder is gone, "" for none."""
    old = f'[ "$until" -lt "$now" ] || [ "$process" = {shlex.quote(over)} ]' if over else '[ "$until" -lt "$now" ]'
    return (
        f'{_OPEN}now=$(date +%s); case "$until" in "" | *[!0-9]* | ?????????????*) until=0 ;; esac; '
        't=$(mktemp "$l.XXXXXX") && chmod 644 "$t" && '
        f'printf "%s\\n%s\\n%s, since %s\\n%s\\n" $((now + {int(lifetime_s)})) {shlex.quote(token)} '
        f'{shlex.quote(_one_line(holder))} "$(date -u +%FT%TZ)" {shlex.quote(this_process())} > "$t" || '
        f'{{ rm -f "$t"; exit 1; }}; '
        f'if [ "$token" = {shlex.quote(token)} ]; then mv -f "$t" "$l"; exit; fi; '
        # An old lease may be another user's.
        f'if [ -e "$l" ] && {{ {old}; }}; then rm -f "$l" 2>/dev/null || sudo -n rm -f "$l" 2>/dev/null; fi; '
        # A link to a file is made at once and whole, or not at all.
        'ln "$t" "$l" 2>/dev/null; r=$?; rm -f "$t"; [ $r = 0 ] || '
        f'{{ [ ! -e "$l" ] || {{ printf "%s\\n" "$holder" "$token" "$process" "$until"; exit {_HELD}; }}; '
        'echo "no link can be made in $d" >&2; exit 1; }'
    )


def _take(runner: NodeRunner, lease: Lease, nodes: Sequence[Node], holder: str, lifetime_s: int) -> Lease:
    def ask(over: Mapping[Node, str]) -> Mapping[Node, NodeAnswer]:
        scripts = {node: _take_script(holder, lease.token, lifetime_s, gone) for node, gone in over.items()}
        return runner.ask(
            {node: [Command("lease", one, timeout_s=15, cap_bytes=2_000)] for node, one in scripts.items()}
        )

    answers = dict(ask(dict.fromkeys(nodes, "")))
    left = {node: there for node in nodes if (there := _held(answers[node])) and is_gone(there.process)}
    if left:
        _end_leftovers(runner, left)
        answers |= ask({node: there.process for node, there in left.items()})
    held, problem = "", ""
    for node in nodes:
        answer = answers[node]
        result = answer.results.get("lease")
        if result is None:
            said = f"{node.name}: {answer.outcome.kind.value} {answer.outcome.detail}".strip()
            problem = problem or ("interrupted" if answer.outcome.kind is OutcomeKind.INTERRUPTED else said)
        elif there := _held(answer):
            held = held or f"{there.who} (on {node.name})"
        elif result.exit_code != 0:
            said = _one_line(result.stderr) or f"exit code {result.exit_code}"
            problem = problem or f"{node.name}: the lease could not be written: {said}"
    return Lease(lease.nodes, lease.token, held, problem)


def _end_leftovers(runner: NodeRunner, left: Mapping[Node, _Held]) -> None:
    """End what the tests of a killed process may still do on nodes: it would spoil the tests of whoever comes next.
    What cannot be ended is found there, as anybody's work is."""
    scripts = {
        node: "; ".join(end_all_script(f"{one.token}{more}") for more in _LAUNCHES)
        for node, one in left.items()
        if _TOKEN.fullmatch(one.token)
    }
    if scripts:
        runner.ask({n: [Command("leftovers", one, timeout_s=30, cap_bytes=2_000)] for n, one in scripts.items()})


def _held(answer: NodeAnswer) -> _Held | None:
    result = answer.results.get("lease")
    return _Held.read(result.stdout) if result is not None and result.exit_code == _HELD else None


def _one_line(text: str) -> str:
    """What others wrote is shown to people: no line breaks, no control characters, not endless."""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:200]
