"""From a node to how it is reached: settings, the user's ssh_config and loaded keys resolved into Targets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.model.places import Node
from ndctl.ssh.deadlines import DeadlineKeeper, Watch
from ndctl.ssh.keys import Identities, load_identities
from ndctl.ssh.known_hosts import KnownHosts
from ndctl.ssh.settings import Hop, SshSettings, parse_jump
from ndctl.ssh.user_config import HostConfig, UserConfig

if TYPE_CHECKING:
    from ndctl.ssh.connection import Target
    from ndctl.ssh.jump import Chain, JumpHosts

Dial = Callable[["Target", Watch], Any]


class Routes:
    """Keys, known_hosts and ssh_config are read once, here; Targets and jump chains are shared by all nodes."""

    def __init__(
        self, settings: SshSettings, keeper: DeadlineKeeper, clock: Callable[[], float] = time.monotonic
    ) -> None:
        from ndctl.ssh.jump import LoginGates

        self._settings = settings
        self._keeper = keeper
        self._clock = clock
        self._lock = threading.Lock()
        self._config = UserConfig.load(settings.user_config) if settings.user_config else None
        self._identities: dict[tuple[Path, ...], Identities] = {}
        self._known_hosts: dict[tuple[Path, ...], KnownHosts] = {}
        self._chains: dict[tuple[Hop, ...], Chain] = {}
        self._jumps: dict[tuple[tuple[Hop, ...], ...], JumpHosts] = {}
        self._gates = LoginGates(settings.logins_per_jump)
        self._get_identities(settings.private_keys)
        self._get_known_hosts(settings.known_hosts)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a careful person wants to know at -v: lines of ssh_config and known_hosts that were passed over."""
        ignored = tuple(f"ssh_config: ignored {line}" for line in self._config.ignored) if self._config else ()
        return ignored + tuple(
            f"known_hosts: {text}" for index in self._known_hosts.values() for text in index.problems
        )

    def to(self, node: Node) -> tuple[Target, Dial]:
        """Where the node is and how to dial it."""
        own = self._lookup(node.address)
        port = node.port if node.port != 22 else own.port or self._settings.port
        target = self._target(node.address, port, own, "")
        chains = self._settings.jumps
        if own.proxy_jump:
            chains = () if own.proxy_jump.lower() == "none" else (parse_jump(own.proxy_jump),)
        return target, self._dial(chains)

    def close(self) -> None:
        with self._lock:
            chains = list(self._chains.values())
            self._chains.clear()
            self._jumps.clear()
        for chain in chains:
            chain.close()

    def _dial(self, chains: tuple[tuple[Hop, ...], ...]) -> Dial:
        from ndctl.ssh import connection
        from ndctl.ssh.jump import JumpHosts

        if not chains:
            return lambda target, watch: connection.dial(target, watch, self._clock)
        with self._lock:
            jumps = self._jumps.get(chains)
            if jumps is None:
                jumps = self._jumps[chains] = JumpHosts([self._chain(hops) for hops in chains])
        return jumps.dial

    def _chain(self, hops: tuple[Hop, ...]) -> Chain:
        from ndctl.ssh.jump import Chain

        if hops not in self._chains:
            targets = []
            for hop in hops:
                own = self._lookup(hop.host)
                targets.append(self._target(hop.host, hop.port or own.port or 22, own, hop.user))
            self._chains[hops] = Chain(
                targets, self._keeper, self._gates, self._settings.transports_per_jump, self._clock
            )
        return self._chains[hops]

    def _target(self, name: str, port: int, own: HostConfig, user: str) -> Target:
        from ndctl.ssh.connection import Target

        settings = self._settings
        host = own.host_name or name
        return Target(
            host=host,
            port=port,
            user=user or own.user or settings.user,
            known_as=host,
            identities=self._get_identities(own.identity_files or settings.private_keys),
            known_hosts=self._get_known_hosts(own.known_hosts or settings.known_hosts),
            connect_s=own.connect_timeout_s or settings.connect_s,
            banner_s=settings.banner_s,
            auth_s=settings.auth_s,
            channel_s=settings.channel_s,
            learn_hint=settings.learn_hint,
        )

    def _lookup(self, name: str) -> HostConfig:
        return self._config.lookup(name) if self._config else HostConfig()

    def _get_identities(self, files: tuple[Path, ...]) -> Identities:
        if files not in self._identities:
            self._identities[files] = load_identities(files, agent=self._settings.agent)
        return self._identities[files]

    def _get_known_hosts(self, files: tuple[Path, ...]) -> KnownHosts:
        if files not in self._known_hosts:
            self._known_hosts[files] = KnownHosts.load(files)
        return self._known_hosts[files]
