"""What a head runs: POSIX sh that asks its peers by ssh, a few at a time, and sends what they say in frames.

What it promises, on the head:
- all it writes is in a private directory on tmpfs that is gone at the end, also when the connection dies. The client
  dying is seen as the end of stdin: every ssh is ended then, and the ephemeral key, should there be one, is removed;
- a peer's stream goes to a file, and from there to the client in frames with a length, by one writer: no peer waits for
  another, and none can forge a frame. A file is bounded, so that a peer that floods fills no memory;
- SLOTS peers are begun at a time; one that takes longer than SLOW_S no longer counts, so that peers that hang never
  hold up the others. Every ssh has an outer deadline of its own;
- host keys are verified against lines the client sent (`StrictHostKeyChecking yes`), no configuration of the head's is
  read, and nobody is asked a question.
Words of the client, a line each: `kill PEER`, `halt` (begin no more), and the end of stdin.
How it is read: `ndctl.ssh.relay_frames`. Its text: `ndctl.ssh.relay_loop`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ndctl.model.answers import Command
from ndctl.ssh.relay_keys import admission, admit_text, key_directory, key_text
from ndctl.ssh.relay_loop import BOOT, LOOP, SSH_OPTIONS
from ndctl.ssh.script import script_text

PYTHON = "python3"
SLOTS = 4
SLOW_S = 5
TICK_S = 1
TICKS_A_BEAT = 5
# A block is at most this long, so that one peer's bulk leaves room for the others' on the one channel.
BLOCK_BYTES = 1_048_576
LOG_BYTES = 4_000
NO_AGENT = "no-agent"
NO_KEY = "no-key"


@dataclass(frozen=True, slots=True)
class PeerLine:
    """One peer as the head is told of it. host "-": the head itself. nonce: of the peer's own script stream.

    commands: in order
    outer_s:  after so long the head ends the ssh, whatever the client does
    """

    number: int
    host: str
    port: int
    user: str
    nonce: str
    commands: tuple[Command, ...]
    outer_s: float


@dataclass(frozen=True, slots=True)
class Order:
    """One pass over a head's peers.

    known_hosts: lines by which the head verifies the peers
    token:       names the run's ephemeral key; "" when there is none
    admit:       peers are logged in to with the client's agent, and the ephemeral key is admitted on them
    last:        the ephemeral key is removed from the head at the end
    """

    peers: tuple[PeerLine, ...]
    known_hosts: tuple[str, ...]
    connect_s: float
    token: str = ""
    admit: bool = False
    last: bool = False
    key_minutes: int = 0

    @property
    def by_agent(self) -> bool:
        return self.admit or not self.token


def relay_line(nonce: str, text: bytes) -> str:
    """The command line for the exec request; `text` is what follows on stdin, before the client's words."""
    return f"exec sh -c {shlex.quote(BOOT)} ndctl-relay {nonce} {len(text)}"


def relay_text(order: Order, nonce: str) -> bytes:
    """What the head reads first: known_hosts, the peers' scripts, who they are, and the loop."""
    kinds = list(dict.fromkeys(peer.commands for peer in order.peers))
    parts = [_file("known_hosts", order.known_hosts, nonce)]
    parts += [_file(f"s{at}", (script_text(commands),), nonce) for at, commands in enumerate(kinds)]
    names = [
        ("s" if peer.host == "-" or not order.admit else "p") + str(kinds.index(peer.commands)) for peer in order.peers
    ]
    parts.append(
        _file(
            "peers",
            [
                f"{peer.number} {peer.host} {peer.port} {peer.user} {peer.nonce} {name} {peer.outer_s:.0f}"
                for peer, name in zip(order.peers, names, strict=True)
            ],
            nonce,
        )
    )
    parts.append(_who_logs_in(order, nonce, len(kinds)))
    parts.append(_loop(order))
    return "".join(parts).encode()


@cache
def _mux_text() -> str:
    return Path(__file__).with_name("relay_mux.py").read_text(encoding="utf-8")


def _file(name: str, lines: Sequence[str], nonce: str) -> str:
    """Written by a here-document whose end no content can guess."""
    body = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    return f"cat >\"$d/{name}\" <<'{nonce}'\n{body}{nonce}\n"


def _who_logs_in(order: Order, nonce: str, kinds: int) -> str:
    """Sets `auth`: ssh's options for who logs in; makes the ephemeral key and the scripts that admit it."""
    agent = (
        f'[ -S "$SSH_AUTH_SOCK" ] || cannot {NO_AGENT}\nagent=SSH_AUTH_SOCK\n'
        f"if command -v {PYTHON} >/dev/null; then\n{_file('mux', (_mux_text(),), nonce)}"
        f'  {PYTHON} -I -S "$d/mux" "$d/agent" "$SSH_AUTH_SOCK" </dev/null >/dev/null 4<&- &\n  mux=$! i=0\n'
        '  until [ -S "$d/agent" ]; do kill -0 $mux && [ $i -lt 50 ] || break; sleep 0.1; i=$((i + 1)); done\n'
        '  [ ! -S "$d/agent" ] || agent=$d/agent\nfi\n'
        'auth="-o IdentityFile=none -o IdentityAgent=$agent"\n'
    )
    if not order.token:
        return agent
    key = f"k={key_directory(order.token)}\n"
    if not order.admit:
        return (
            f'{key}[ -s "$k/key" ] || cannot {NO_KEY}\nauth="-i $k/key -o IdentitiesOnly=yes -o IdentityAgent=none"\n'
        )
    every = " ".join(str(at) for at in range(kinds))
    return (
        f"{agent}{key}marked=' {admission(order.token)}'\n"
        f"{_file('admit', (admit_text(order.token, order.key_minutes),), nonce)}"
        f"{key_text(order.token, order.key_minutes)}"
        f"for s in {every}; do\n"
        '  { [ -z "$public" ] || { printf "public=\'%s\' kept=\'%s\'\\n" "$public" "$kept"; cat "$d/admit"; }\n'
        '    cat "$d/s$s"; } >"$d/p$s"\n'
        "done\n"
    )


def _loop(order: Order) -> str:
    most = max((_most_bytes(peer.commands) for peer in order.peers), default=0)
    connect = f'-o ConnectTimeout={max(1, round(order.connect_s))} -o UserKnownHostsFile="$d/known_hosts"'
    words = {
        "SSH_OPTIONS": f"{SSH_OPTIONS} {connect} $auth",
        "FILE_BLOCKS": str(most // 512 + 1),
        "BLOCK": str(BLOCK_BYTES),
        "LOG": str(LOG_BYTES),
        "SLOW": str(SLOW_S),
        "SLOTS": str(SLOTS),
        "TICK": str(TICK_S),
        "BEAT": str(TICKS_A_BEAT),
        "LAST": '[ -z "$k" ] || rm -rf "$k"' if order.last else ":",
    }
    text = LOOP
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


# What start-up files may print before the script, as much as no node does by mistake.
_NOISE_BYTES = 64 * 1_048_576


def _most_bytes(commands: Sequence[Command]) -> int:
    """The longest a peer's stream can rightly be: both streams of every command up to its cap, and noise before."""
    return _NOISE_BYTES + sum(2 * command.cap_bytes + 1_024 for command in commands)
