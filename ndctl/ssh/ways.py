"""Which way leads to a node: where it is, as whom, by which jump hosts; from the settings and the user's ssh_config.

Names and files only: nothing is connected to and no key is read, so that what prints the way for other programs says
what the engine does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ndctl.model.errors import NdctlError
from ndctl.model.places import Node
from ndctl.ssh.settings import Hop, SshSettings, parse_jump
from ndctl.ssh.user_config import HostConfig, UserConfig

BAD_JUMP = "ssh.bad-jump"
Chain = tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one connection goes. own: what the user's ssh_config says of it, taken into account already."""

    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    own: HostConfig


class Ways:
    """The user's file is read once, here."""

    def __init__(self, settings: SshSettings) -> None:
        self._settings = settings
        self._config = UserConfig.load(settings.user_config) if settings.user_config else None
        self._loops: dict[str, None] = {}

    @property
    def remarks(self) -> tuple[str, ...]:
        """Lines of ssh_config that were passed over, and loops found so far."""
        ignored = tuple(f"ssh_config: ignored {line}" for line in self._config.ignored) if self._config else ()
        return (*ignored, *self._loops)

    def to_node(self, node: Node) -> Place:
        settings = self._settings
        pinned = settings.pinned
        port = node.port if node.port != 22 else settings.port if "port" in pinned else 0
        own = self._lookup(node.address, settings.user if "user" in pinned else "", port)
        return Place(
            host=own.host_name or node.address,
            port=port or own.port or settings.port,
            user=settings.user if "user" in pinned else own.user or settings.user,
            identity_files=(() if "private_keys" in pinned else own.identity_files) or settings.private_keys,
            known_hosts=settings.known_hosts if "known_hosts" in pinned else own.known_hosts or settings.known_hosts,
            own=own,
        )

    def to_hop(self, hop: Hop) -> Place:
        settings = self._settings
        own = self._lookup(hop.host, hop.user, hop.port)
        return Place(
            host=own.host_name or hop.host,
            port=hop.port or own.port or 22,
            user=hop.user or own.user or settings.user,
            identity_files=own.identity_files or settings.private_keys,
            known_hosts=settings.known_hosts + (own.known_hosts or settings.hop_known_hosts),
            own=own,
        )

    def chains(self, place: Place) -> tuple[Chain, ...]:
        """The chains that lead to a node side by side, () for none. As with `ssh -J`, jump hosts that are named beat
        those of the file. Raises NdctlError BAD_JUMP."""
        jump = place.own.proxy_jump
        if self._settings.jumps or not jump or jump.lower() == "none":
            return self._settings.jumps
        return (_jump_of_file(jump),)

    def from_here(self, hops: Chain) -> Chain:
        """The whole way: the first hop may itself be reached through others, says the user's file. Raises NdctlError
        BAD_JUMP.

        A host that would be its own jump host is dialled directly.
        """
        while True:
            first = hops[0]
            before = self._lookup(first.host, first.user, first.port).proxy_jump
            if not before or before.lower() == "none":
                return hops
            more = _jump_of_file(before)
            on_the_way = {hop.host for hop in hops}
            if any(hop.host in on_the_way for hop in more):
                self._loops.setdefault(f"ssh_config: ProxyJump {before} of {first.host} is a loop, not followed")
                return hops
            hops = more + hops

    def _lookup(self, name: str, user: str = "", port: int = 0) -> HostConfig:
        if self._config is None:
            return HostConfig()
        return self._config.lookup(name, user=user, port=port, else_user=self._settings.user)


def _jump_of_file(text: str) -> Chain:
    try:
        return parse_jump(text)
    except NdctlError as error:
        raise NdctlError(
            BAD_JUMP,
            f"ProxyJump {text} in ssh_config: {error.message}",
            hint=error.hint,
            exit_code=error.exit_code,
        ) from error
