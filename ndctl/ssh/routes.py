"""From a node to how it is reached: its way (`ways`) and the loaded keys made into Targets and jump chains."""

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
from ndctl.ssh.settings import Hop, SshSettings
from ndctl.ssh.target import Fault, Target
from ndctl.ssh.ways import BAD_JUMP, Place, Ways

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
        self._ways = Ways(settings)
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
        problems = (f"known_hosts: {text}" for index in self._known_hosts.values() for text in index.problems)
        return (*self._ways.remarks, *dict.fromkeys(problems))

    def to(self, node: Node) -> tuple[Target, Dial]:
        """Where the node is and how to dial it; the dialling tells where the user's ssh_config makes no sense."""
        place = self._ways.to_node(node)
        target = self._target(place, self._settings.learn_hint)
        try:
            return target, self._dial(self._ways.chains(place))
        except NdctlError as error:
            if error.code != BAD_JUMP:
                raise
            return target, _failing(Fault(OutcomeKind.UNREACHABLE, error.message, hint=error.hint))

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
                [self._hop(hop) for hop in self._ways.from_here(hops)],
                self._keeper,
                self._gates,
                self._settings.transports_per_jump,
                self._clock,
            )
        return self._chains[hops]

    def _hop(self, hop: Hop) -> Target:
        place = self._ways.to_hop(hop)
        learned = bool(self._get_known_hosts(self._settings.known_hosts).expected(place.host, place.port))
        return self._target(place, self._settings.learn_hint if learned else "")

    def _target(self, place: Place, learn_hint: str) -> Target:
        settings = self._settings
        return Target(
            host=place.host,
            port=place.port,
            user=place.user,
            known_as=place.host,
            identities=self._get_identities(place.identity_files),
            known_hosts=self._get_known_hosts(place.known_hosts),
            connect_s=place.own.connect_timeout_s or settings.connect_s,
            banner_s=settings.banner_s,
            auth_s=settings.auth_s,
            channel_s=settings.channel_s,
            learn_hint=learn_hint,
            unfollowed=place.own.unfollowed,
        )

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
