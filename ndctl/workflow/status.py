"""What stands: the control plane and the last validation of every rack, side by side. Nothing is changed.

A cluster that cannot be asked is told with its reason and costs the others nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.inventory.state_place import cluster_place
from ndctl.model.errors import ExitCode, ManyErrors, NdctlError, worst_exit
from ndctl.model.places import rack_name
from ndctl.report.fold import natural
from ndctl.workflow.locks import lock_of
from ndctl.workflow.side_by_side import side_by_side

if TYPE_CHECKING:
    from ndctl.azure.blocks import Block
    from ndctl.azure.clients import AzureClients
    from ndctl.inventory.loader import Loaded
    from ndctl.record.past import LastVerdict
    from ndctl.workflow.live import LiveRack

STATUS_SCHEMA = "ndctl.status/1"
CLUSTERS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class RackStatus:
    """asked: VMs the inventory asks for, 0 for a rack beyond it. block, live: None where Azure has none.

    age_s: seconds since the last validation began.
    """

    name: str
    asked: int
    block: Block | None = None
    live: LiveRack | None = None
    last: LastVerdict | None = None
    age_s: float | None = None

    @property
    def running(self) -> int:
        return sum(one.deployed and one.power == "running" for one in self.live.instances) if self.live else 0

    @property
    def as_asked(self) -> bool:
        return self.asked > 0 and self.running >= self.asked

    def as_dict(self) -> dict[str, Any]:
        live, block, last = self.live, self.block, self.last
        return {
            "name": self.name,
            "asked_vms": self.asked,
            "block": None
            if block is None
            else {
                "name": block.name,
                "capacity": block.capacity,
                "current_capacity": block.current,
                "provisioning": block.provisioning,
            },
            "scale_set": None
            if live is None
            else {
                "name": live.scale_set.name,
                "capacity": live.scale_set.capacity,
                "provisioning": live.scale_set.provisioning,
            },
            "vms": {
                "there": len(live.instances) if live else 0,
                "provisioned": live.deployed if live else 0,
                "running": self.running,
            },
            "last_validation": None
            if last is None
            else {
                "run": last.run,
                "started": last.started,
                "level": last.level,
                "verdict": last.verdict,
                "age_s": None if self.age_s is None else round(self.age_s),
            },
        }


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """on_azure False: static racks. error: why it could not be asked; then there is only what is known here; unread:
    because its inventory is wrong."""

    cluster: str
    inventory: str
    region: str = ""
    zone: str = ""
    resource_group: str = ""
    group_exists: bool | None = None
    on_azure: bool = True
    locks: tuple[str, ...] = ()
    last_change: str = ""
    unfinished: tuple[tuple[str, str], ...] = ()
    racks: tuple[RackStatus, ...] = ()
    error: NdctlError | None = None
    unread: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "inventory": self.inventory,
            "region": self.region,
            "zone": self.zone,
            "resource_group": {"name": self.resource_group, "exists": self.group_exists},
            "on_azure": self.on_azure,
            "locks": list(self.locks),
            "last_change": self.last_change,
            "unfinished_deployments": [{"name": name, "since": since} for name, since in self.unfinished],
            "racks": [rack.as_dict() for rack in self.racks],
            "error": None
            if self.error is None
            else {"code": self.error.code, "message": _message(self.error), "next_step": self.error.hint},
        }


def _message(error: NdctlError) -> str:
    if isinstance(error, ManyErrors):
        return "; ".join(map(_message, error.errors))
    return f"{error.where}: {error.message}" if error.where else error.message


def unread(errors: Sequence[NdctlError]) -> tuple[ClusterStatus, ...]:
    """One for each inventory that is wrong, so that none of those asked for is missing from the answer."""
    files: dict[str, list[NdctlError]] = {}
    for error in errors:
        files.setdefault(str(error.where.file) if error.where else "", []).append(error)
    return tuple(_unread(file, wrong) for file, wrong in files.items())


def _unread(file: str, errors: list[NdctlError]) -> ClusterStatus:
    """Called by the cluster's name where the file tells it, else by the file's."""
    from ndctl.profiles.marked_yaml import read

    try:
        data = read(Path(file), "inventory").data
    except NdctlError:
        data = {}
    name = data.get("cluster")
    return ClusterStatus(
        name if isinstance(name, str) and name else Path(file).name or "inventory",
        file,
        on_azure="static" not in data,
        error=errors[0] if len(errors) == 1 else ManyErrors(errors),
        unread=True,
    )


def exit_code(clusters: Sequence[ClusterStatus]) -> ExitCode:
    """0 when all could be asked, else the worst reason why not."""
    return worst_exit(one.error.exit_code for one in clusters if one.error)


def status_dict(clusters: Sequence[ClusterStatus], code: ExitCode) -> dict[str, Any]:
    """The published form."""
    return {"schema": STATUS_SCHEMA, "clusters": [one.as_dict() for one in clusters], "exit_code": int(code)}


def status(
    inventories: Sequence[Loaded],
    last_of: Callable[[str], dict[str, LastVerdict]],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> tuple[ClusterStatus, ...]:
    """In the order given. last_of: cluster -> rack -> its last verdict on record."""
    looked = side_by_side(
        inventories,
        lambda loaded: _cluster(loaded, last_of(loaded.inventory.cluster), now()),
        workers=CLUSTERS_AT_ONCE,
        stop=threading.Event(),
        grace_s=0.2,
    )
    if looked.interrupted:
        raise KeyboardInterrupt
    return tuple(looked.results[index] for index in range(len(inventories)))


def _cluster(loaded: Loaded, last: dict[str, LastVerdict], now: datetime) -> ClusterStatus:
    inventory = loaded.inventory
    known = ClusterStatus(
        inventory.cluster,
        str(loaded.path),
        inventory.region or "",
        inventory.zone or "",
        inventory.resource_group or "",
        on_azure=inventory.static is None,
    )
    local = lock_of(cluster_place(inventory, loaded.path))
    known = replace(known, locks=(f"here: {local}",) if local else ())
    if inventory.static is not None:
        from ndctl.inventory.static import static_cluster

        asked = {rack.name: len(rack.nodes) for rack in static_cluster(loaded).racks}
        return replace(known, racks=_racks(asked, {}, {}, last, now))
    asked = {rack_name(number): loaded.vms_per_rack for number in range(1, (inventory.racks or 0) + 1)}
    from ndctl.azure.clients import connect

    try:
        clients = connect(loaded)
        try:
            return _asked(known, clients, asked, last, now)
        finally:
            clients.close()
    except NdctlError as error:
        return replace(known, racks=_racks(asked, {}, {}, last, now), error=error)


def _asked(
    known: ClusterStatus, clients: AzureClients, asked: dict[str, int], last: dict[str, LastVerdict], now: datetime
) -> ClusterStatus:
    from ndctl.azure.blocks import list_blocks
    from ndctl.azure.deployments import unfinished
    from ndctl.azure.group_tags import read_tags
    from ndctl.workflow.audit import audit_tag
    from ndctl.workflow.group_lock import lock_tag, process_is_gone
    from ndctl.workflow.live import live_racks
    from ndctl.workflow.lock_holder import read

    with clients.telling(f"reading resource group {clients.resource_group}"):
        tags = read_tags(clients)
        if tags is None:
            return replace(known, group_exists=False, racks=_racks(asked, {}, {}, last, now))
        blocks = {block.rack: block for block in list_blocks(clients, known.cluster)}
        running = unfinished(clients, f"{known.cluster}-")
    live = live_racks(clients, known.cluster)
    claim = tags.get(lock_tag(known.cluster), "")
    holder = read(claim)
    if claim and (holder is None or holder.until > clients.clock.now()):
        gone = ": its process is gone; the next command takes the lock" if holder and process_is_gone(holder) else ""
        known = replace(known, locks=(*known.locks, f"on Azure: {holder.who if holder else claim}{gone}"))
    return replace(
        known,
        group_exists=True,
        last_change=tags.get(audit_tag(known.cluster), ""),
        unfinished=running,
        racks=_racks(asked, blocks, live, last, now),
    )


def _racks(
    asked: dict[str, int],
    blocks: dict[str, Block],
    live: dict[str, LiveRack],
    last: dict[str, LastVerdict],
    now: datetime,
) -> tuple[RackStatus, ...]:
    names = sorted({*asked, *blocks, *live}, key=natural)
    return tuple(
        RackStatus(
            name, asked.get(name, 0), blocks.get(name), live.get(name), last.get(name), _age(last.get(name), now)
        )
        for name in names
    )


def _age(last: LastVerdict | None, now: datetime) -> float | None:
    try:
        return (now - datetime.fromisoformat(last.started)).total_seconds() if last else None
    except (ValueError, TypeError):  # a damaged record: the run is told, its age is not
        return None


def last_verdicts(record: Path | None) -> Callable[[str], dict[str, LastVerdict]]:
    """From the record; where nothing was ever recorded no rack has a verdict."""

    def of(cluster: str) -> dict[str, LastVerdict]:
        from ndctl.record.store import Store

        try:
            with Store(record, create=False) as store:
                return store.past.last_verdicts(cluster)
        except NdctlError as error:
            if error.code == "record.none" and record is None:
                return {}
            raise

    return of
