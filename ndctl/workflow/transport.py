"""SSH to a cluster's nodes, made from its inventory: the one seam between validate and the ssh room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ndctl.inventory.loader import Loaded
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.places import Cluster, Node
from ndctl.workflow.host_keys import known_hosts_path
from ndctl.workflow.jump_hosts import jump_chains

if TYPE_CHECKING:
    from ndctl.ssh.engine import Engine
    from ndctl.ssh.relay import RelayEngine
    from ndctl.ssh.settings import SshSettings


class Transport(Protocol):
    """A NodeRunner that can also give answers as they come, and be stopped."""

    @property
    def user(self) -> str: ...

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]: ...

    def collect(self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None]) -> None: ...

    def host_key_lines(self, node: Node) -> tuple[str, ...]:
        """known_hosts lines by which a peer can verify `node`; empty when its key is not known here."""
        ...

    def stop(self) -> None: ...

    def close(self) -> None: ...


class SshTransport:
    """The real one, over `ssh.engine.Engine`, or over a runner that is given."""

    def __init__(self, settings: SshSettings, engine: Engine | RelayEngine | None = None) -> None:
        from ndctl.ssh.engine import Engine
        from ndctl.ssh.known_hosts import KnownHosts

        self.settings = settings
        self._known = KnownHosts.load(settings.known_hosts)
        self._engine = engine or Engine(settings)

    @property
    def user(self) -> str:
        return self._engine.user

    @property
    def remarks(self) -> tuple[str, ...]:
        return self._engine.remarks

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        return self._engine.ask(requests)

    def collect(self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None]) -> None:
        for answer in self._engine.collect(requests):
            on_answer(answer)

    def host_key_lines(self, node: Node) -> tuple[str, ...]:
        return self._lines(node.address, node.port)

    def jump_key_lines(self) -> tuple[str, ...]:
        """known_hosts lines of the jump hosts that are named by address."""
        hops = {(hop.host, hop.port or 22) for chain in self.settings.jumps for hop in chain}
        return tuple(line for host, port in sorted(hops) for line in self._lines(host, port))

    def _lines(self, host: str, port: int) -> tuple[str, ...]:
        from ndctl.ssh.known_hosts import host_name

        name = host_name(host, port)
        return tuple(key.line(name) for key in self._known.expected(host, port))

    def stop(self) -> None:
        self._engine.stop()

    def close(self) -> None:
        self._engine.close()


def ssh_settings(loaded: Loaded, fanout: int) -> SshSettings:
    """How this inventory's nodes are reached. Raises NdctlError exit 4 when the jump VM has not been learned."""
    from ndctl.ssh.settings import settings_from

    ssh = loaded.inventory.ssh
    known_hosts = known_hosts_path(loaded)
    public_key = ssh.public_key
    if public_key is not None and " " not in public_key:
        public_key = str(loaded.path_of(public_key))
    return settings_from(
        user=ssh.user,
        port=ssh.port,
        public_key=public_key,
        private_key=str(loaded.path_of(ssh.private_key)) if ssh.private_key else None,
        jump=jump_chains(loaded),
        known_hosts=[known_hosts],
        fanout=fanout,
        user_config=_user_config(),
        learn_hint=_learn_hint(loaded, known_hosts),
        hop_known_hosts=[Path.home() / ".ssh" / "known_hosts", Path("/etc/ssh/ssh_known_hosts")],
        pinned=_pinned(loaded),
    )


def _pinned(loaded: Loaded) -> set[str]:
    """What the user's ssh_config must not change: what the inventory says itself, and what a deployment made so."""
    said = loaded.inventory.ssh.model_fields_set
    pinned = {name for name in ("user", "port", "known_hosts") if name in said or loaded.inventory.static is None}
    return pinned | ({"private_keys"} if said & {"private_key", "public_key"} else set())


def remarks_of(transport: object) -> tuple[str, ...]:
    """What of the user's own files it passed over; a transport that reads none has none."""
    return tuple(getattr(transport, "remarks", ()))


@contextmanager
def remarks_told(transport: object, cluster: str, on_event: EventSink) -> Iterator[None]:
    """Each remark once, as an event for -v: what is known at the start, and at the end what came up meanwhile."""
    told: set[str] = set()

    def tell() -> None:
        for remark in remarks_of(transport):
            if remark not in told:
                told.add(remark)
                on_event(Event("note", "done", cluster=cluster, message=remark, data={"aside": True}))

    tell()
    try:
        yield
    finally:
        tell()


def _user_config() -> Path | None:
    path = Path.home() / ".ssh" / "config"
    return path if path.exists() else None


def _learn_hint(loaded: Loaded, known_hosts: Path) -> str:
    if loaded.inventory.static is not None:
        return f"compare it with the node's console, then put it into {known_hosts}, in place of an older one"
    return (
        f"ndctl validate {loaded.path} --relearn-host-keys   (asks Azure for the keys; find out first why they changed)"
    )


def open_transport(loaded: Loaded, cluster: Cluster, fanout: int) -> Transport:
    return SshTransport(ssh_settings(loaded, fanout))


def open_relay(
    loaded: Loaded, cluster: Cluster, fanout: int, *, single: bool, on_event: EventSink = ignore_events
) -> Transport:
    """A transport that collects through one node of each rack. single: it will hardly be asked more than once."""
    from ndctl.ssh.relay import RelayEngine

    settings = ssh_settings(loaded, fanout)
    return SshTransport(settings, RelayEngine(settings, single=single, events=_notes_of(cluster, on_event)))


def _notes_of(cluster: Cluster, on_event: EventSink) -> EventSink:
    """What the relay has to say of a rack; of its nodes the workflow tells itself."""

    def tell(event: Event) -> None:
        if event.type == "note":
            on_event(replace(event, cluster=cluster.name))

    return tell
