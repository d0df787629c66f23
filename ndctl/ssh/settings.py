"""How nodes are reached: the plain values every SSH connection is made from. No I/O but `expanduser`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ndctl.model.errors import ExitCode, NdctlError

_HOP = re.compile(
    r"^(?:(?P<user>[^@\s]+)@)?(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^:@\s,\[\]]+))(?::(?P<port>\d+))?$"
)
DEFAULT_KEY_NAMES = ("id_ed25519", "id_ecdsa", "id_rsa")


@dataclass(frozen=True, slots=True)
class Hop:
    """One jump host. Empty user and port 0 mean: the settings' (or the user's ssh_config) own."""

    host: str
    user: str = ""
    port: int = 0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (f"{self.user}@" if self.user else "") + host + (f":{self.port}" if self.port else "")


@dataclass(frozen=True, slots=True)
class SshSettings:
    """Everything an Engine needs. Times are seconds.

    private_keys:    files tried in order; a certificate beside one (`<file>-cert.pub`) is tried before it
    agent:           keys of the SSH agent may be used, after the files
    jumps:           chains of hops; nodes are spread over the chains, which work side by side
    known_hosts:     files with the host keys that are trusted; the first one is where a learned key belongs
    hop_known_hosts: further files that are trusted for jump hosts only, where ssh_config names none
    pinned:          of user, port, private_keys, known_hosts: what the user's ssh_config must not change for nodes
    connect_s:       TCP connect, for each hop
    banner_s:        from connected to the end of the key exchange
    auth_s:          login, all keys together
    channel_s:       opening the session
    command_grace_s: what the client waits beyond a command's own deadline on the node
    node_deadline_s: everything a node may take in one attempt, whatever its commands ask for
    run_deadline_s:  everything one `Engine.collect` may take; who has not answered by then is timed out
    retries:         further attempts after a fault of the connection that came at once (refused, reset)
    learn_hint:      what a person does when a host key is unknown or changed
    """

    user: str
    port: int = 22
    private_keys: tuple[Path, ...] = ()
    agent: bool = True
    jumps: tuple[tuple[Hop, ...], ...] = ()
    known_hosts: tuple[Path, ...] = ()
    connect_s: float = 10.0
    banner_s: float = 15.0
    auth_s: float = 30.0
    channel_s: float = 15.0
    command_grace_s: float = 10.0
    node_deadline_s: float = 1800.0
    run_deadline_s: float = 14_400.0
    fanout: int = 64
    retries: int = 2
    retry_first_s: float = 0.5
    retry_last_s: float = 8.0
    logins_per_jump: int = 8
    transports_per_jump: int = 4
    user_config: Path | None = None
    learn_hint: str = ""
    hop_known_hosts: tuple[Path, ...] = ()
    pinned: frozenset[str] = frozenset()


def parse_jump(text: str) -> tuple[Hop, ...]:
    """`[user@]host[:port]`, or several of them with commas: a chain, the first is dialled from here.

    Raises NdctlError "ssh.bad-jump".
    """
    hops = []
    for part in text.split(","):
        match = _HOP.match(part.strip().removeprefix("ssh://"))
        port = int(match["port"] or 0) if match else 0
        if match is None or port > 65535:
            raise NdctlError(
                "ssh.bad-jump",
                f"'{part.strip()}' is not a jump host",
                hint="write [user@]host[:port], several hops with commas: 'bastion,inner:2222'",
                exit_code=ExitCode.USAGE,
            )
        hops.append(Hop(match["host"] or match["six"], match["user"] or "", port))
    return tuple(hops)


def settings_from(
    *,
    user: str,
    port: int = 22,
    public_key: str | None = None,
    private_key: str | None = None,
    jump: Sequence[str] = (),
    known_hosts: Sequence[str | Path] = (),
    home: Path | None = None,
    fanout: int = 64,
    user_config: Path | None = None,
    learn_hint: str = "",
    hop_known_hosts: Sequence[str | Path] = (),
    pinned: Collection[str] = (),
) -> SshSettings:
    """SshSettings from an inventory's own words.

    The private key is `private_key`; or the file beside `public_key` (its name without `.pub`) when that is a file
    name; or else the usual names under ~/.ssh that exist. The agent is asked after the files.
    """
    home = home or Path.home()
    if private_key is not None:
        keys: tuple[Path, ...] = (_expand(private_key, home),)
    elif public_key is not None and public_key.endswith(".pub") and " " not in public_key:
        keys = (_expand(public_key.removesuffix(".pub"), home),)
    else:
        keys = tuple(path for name in DEFAULT_KEY_NAMES if (path := home / ".ssh" / name).exists())
    return SshSettings(
        user=user,
        port=port,
        private_keys=keys,
        jumps=tuple(parse_jump(text) for text in jump),
        known_hosts=tuple(_expand(str(path), home) for path in known_hosts),
        fanout=fanout,
        user_config=user_config,
        learn_hint=learn_hint,
        hop_known_hosts=tuple(_expand(str(path), home) for path in hop_known_hosts),
        pinned=frozenset(pinned),
    )


def _expand(text: str, home: Path) -> Path:
    return home / text[2:] if text.startswith("~/") else Path(text)
