"""From a node to how it is reached: settings, the user's ssh_config and loaded keys resolved into Targets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.model.answers import OutcomeKind
from ndctl.model.errors import NdctlError
from ndctl.model.places import Node
from ndctl.ssh.deadlines import DeadlineKeeper, Watch
from ndctl.ssh.keys import Identities, load_identities
from ndctl.ssh.known_hosts import KnownHosts
from ndctl.ssh.settings import Hop, SshSettings, parse_jump
from ndctl.ssh.target import Fault, Target
from ndctl.ssh.user_config import HostConfig, UserConfig

if TYPE_CHECKING:
    from ndctl.ssh.jump import Chain, JumpHosts

Dial = Callable[[Target, Watch], Any]


class Routes:
    """Keys, known_hosts and ssh_config are read once, here; Targets and jump chains are shared by all nodes."""

    def __init__(
        self, settings: SshSettings, keeper: DeadlineKeeper, clock: Callable[[], float] = time.monotonic
    ) -> None:
        from ndctl.ssh.jump import LoginGates

        self._settings = settings
        self._keeper = keeper
        self._clock = clock
        self._lock = threading.RLock()
        self._config = UserConfig.load(settings.user_config) if settings.user_config else None
        self._identities: dict[tuple[Path, ...], Identities] = {}
        self._known_hosts: dict[tuple[Path, ...], KnownHosts] = {}
        self._chains: dict[tuple[Hop, ...], Chain] = {}
        self._jumps: dict[tuple[tuple[Hop, ...], ...], JumpHosts] = {}
        self._loops: dict[str, None] = {}
        self._gates = LoginGates(settings.logins_per_jump)
        self._get_identities(settings.private_keys)
        self._get_known_hosts(settings.known_hosts)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a careful person wants to know at -v: lines of ssh_config and known_hosts that were passed over."""
        ignored = tuple(f"ssh_config: ignored {line}" for line in self._config.ignored) if self._config else ()
        problems = (f"known_hosts: {text}" for index in self._known_hosts.values() for text in index.problems)
        return (*ignored, *dict.fromkeys(problems), *self._loops)

    def to(self, node: Node) -> tuple[Target, Dial]:
        """Where the node is and how to dial it; the dialling tells where the user's ssh_config makes no sense."""
        settings = self._settings
        pinned = settings.pinned
        port = node.port if node.port != 22 else settings.port if "port" in pinned else 0
        own = self._lookup(node.address, settings.user if "user" in pinned else "", port)
        target = self._target(
            node.address,
            port=port or own.port or settings.port,
            user="" if "user" in pinned else own.user,
            own=own,
            files=() if "private_keys" in pinned else own.identity_files,
            known_hosts=settings.known_hosts if "known_hosts" in pinned else own.known_hosts or settings.known_hosts,
            learn_hint=settings.learn_hint,
        )
        # As with `ssh -J`, jump hosts that are named beat those of the file.
        chains = settings.jumps
        try:
            if not chains and own.proxy_jump and own.proxy_jump.lower() != "none":
                chains = (_jump_of_file(own.proxy_jump),)
            return target, self._dial(chains)
        except Fault as fault:
            return target, _failing(fault)

    def close(self) -> None:
        with self._lock:
            chains = list(self._chains.values())
            self._chains.clear()
            self._jumps.clear()
        for chain in chains:
            chain.close()

    def _dial(self, chains: tuple[tuple[Hop, ...], ...]) -> Dial:
        if not chains:
            from ndctl.ssh.dialing import dial

            return lambda target, watch: dial(target, watch, self._clock)
        from ndctl.ssh.jump import JumpHosts

        with self._lock:
            jumps = self._jumps.get(chains)
            if jumps is None:
                jumps = self._jumps[chains] = JumpHosts([self._chain(hops) for hops in chains])
        return jumps.dial

    def _chain(self, hops: tuple[Hop, ...]) -> Chain:
        from ndctl.ssh.jump import Chain

        if hops not in self._chains:
            self._chains[hops] = Chain(
                [self._hop(hop) for hop in self._from_here(hops)],
                self._keeper,
                self._gates,
                self._settings.transports_per_jump,
                self._clock,
            )
        return self._chains[hops]

    def _from_here(self, hops: tuple[Hop, ...]) -> tuple[Hop, ...]:
        """The whole way: the first hop may itself be reached through others, says the user's file.

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

    def _hop(self, hop: Hop) -> Target:
        settings = self._settings
        own = self._lookup(hop.host, hop.user, hop.port)
        files = settings.known_hosts + (own.known_hosts or settings.hop_known_hosts)
        host, port = own.host_name or hop.host, hop.port or own.port or 22
        learned = bool(self._get_known_hosts(settings.known_hosts).expected(host, port))
        return self._target(
            hop.host,
            port=port,
            user=hop.user or own.user,
            own=own,
            files=own.identity_files,
            known_hosts=files,
            learn_hint=settings.learn_hint if learned else "",
        )

    def _target(
        self,
        name: str,
        *,
        port: int,
        user: str,
        own: HostConfig,
        files: tuple[Path, ...],
        known_hosts: tuple[Path, ...],
        learn_hint: str,
    ) -> Target:
        settings = self._settings
        host = own.host_name or name
        return Target(
            host=host,
            port=port,
            user=user or settings.user,
            known_as=host,
            identities=self._get_identities(files or settings.private_keys),
            known_hosts=self._get_known_hosts(known_hosts),
            connect_s=own.connect_timeout_s or settings.connect_s,
            banner_s=settings.banner_s,
            auth_s=settings.auth_s,
            channel_s=settings.channel_s,
            learn_hint=learn_hint,
            unfollowed=own.unfollowed,
        )

    def _lookup(self, name: str, user: str = "", port: int = 0) -> HostConfig:
        if self._config is None:
            return HostConfig()
        return self._config.lookup(name, user=user, port=port, else_user=self._settings.user)

    def _get_identities(self, files: tuple[Path, ...]) -> Identities:
        with self._lock:
            if files not in self._identities:
                self._identities[files] = load_identities(files, agent=self._settings.agent)
            return self._identities[files]

    def _get_known_hosts(self, files: tuple[Path, ...]) -> KnownHosts:
        with self._lock:
            if files not in self._known_hosts:
                self._known_hosts[files] = KnownHosts.load(files)
            return self._known_hosts[files]


def _failing(fault: Fault) -> Dial:
    def fail(target: Target, watch: Watch) -> Any:
        raise fault

    return fail


def _jump_of_file(text: str) -> tuple[Hop, ...]:
    try:
        return parse_jump(text)
    except NdctlError as error:
        detail = f"ProxyJump {text} in ssh_config: {error.message}"
        raise Fault(OutcomeKind.UNREACHABLE, detail, hint=error.hint) from error
