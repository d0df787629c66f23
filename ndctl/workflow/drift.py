"""Drift: what of a cluster in Azure is not as the inventory renders it. Only read; nothing is put right."""

from __future__ import annotations

import datetime
import fnmatch
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError

from ndctl.azure.clients import AzureClients
from ndctl.azure.faults import AzureFault, fault_from_exception
from ndctl.azure.read_resource import read_resource
from ndctl.azure.resources import list_group
from ndctl.model.errors import ExitCode, worst_exit
from ndctl.render import names
from ndctl.render.drifted import Drifted, Sort, drifted
from ndctl.render.effects import Effect, meaning_of
from ndctl.render.resources import body_of, resources_of, title_of
from ndctl.workflow.side_by_side import side_by_side

if TYPE_CHECKING:
    from ndctl.inventory.drift import DriftIgnored
    from ndctl.inventory.loader import Loaded
    from ndctl.render.rendered import Rendered

DRIFT_SCHEMA = "ndctl.drift/1"
READERS = 8


@dataclass(frozen=True, slots=True)
class Item:
    """One difference. effect: what setting it right by deploying would come to; ignored: the reason, "" if it counts.

    A resource that is missing, or that nobody asked for, has path "".
    """

    resource: str
    rack: str
    path: str
    sort: Sort
    wanted: Any = None
    live: Any = None
    effect: Effect | None = None
    ignored: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "rack": self.rack,
            "path": self.path,
            "sort": self.sort.value,
            "wanted": self.wanted,
            "live": self.live,
            "effect": self.effect.value if self.effect else None,
            "ignored": self.ignored,
        }


@dataclass(frozen=True, slots=True)
class DriftResult:
    """unread: resources that Azure did not show, and why; they may have drifted. notes: on the ignore list itself."""

    cluster: str
    inventory: str
    resource_group: str
    group_exists: bool
    compared: int = 0
    items: tuple[Item, ...] = ()
    unread: tuple[tuple[str, AzureFault], ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def drift(self) -> tuple[Item, ...]:
        return tuple(one for one in self.items if not one.ignored and one.sort is not Sort.NOT_TOLD)

    @property
    def not_told(self) -> tuple[Item, ...]:
        return tuple(one for one in self.items if one.sort is Sort.NOT_TOLD)

    @property
    def ignored(self) -> tuple[Item, ...]:
        return tuple(one for one in self.items if one.ignored and one.sort is not Sort.NOT_TOLD)

    def exit_code(self, detailed: bool) -> ExitCode:
        codes = [fault.exit_code or ExitCode.INCOMPLETE for _, fault in self.unread]
        if detailed and self.drift:
            codes.append(ExitCode.CHANGES)
        return worst_exit(codes)

    def as_dict(self, detailed: bool) -> dict[str, Any]:
        """The published form."""
        return {
            "schema": DRIFT_SCHEMA,
            "cluster": self.cluster,
            "inventory": self.inventory,
            "resource_group": {"name": self.resource_group, "exists": self.group_exists},
            "compared_resources": self.compared,
            "drift": [one.as_dict() for one in self.drift],
            "ignored": [one.as_dict() for one in self.ignored],
            "not_told": [one.as_dict() for one in self.not_told],
            "unread": [{"resource": name, "fault": fault.as_dict()} for name, fault in self.unread],
            "notes": list(self.notes),
            "exit_code": int(self.exit_code(detailed)),
        }


def find_drift(
    loaded: Loaded,
    rendered: Rendered,
    clients: AzureClients,
    today: Callable[[], datetime.date] = lambda: datetime.datetime.now(datetime.UTC).date(),
) -> DriftResult:
    """Every rendered resource is read. Raises NdctlError (3, 4) when the group cannot be listed."""
    cluster = loaded.inventory.cluster
    with clients.telling(f"listing resource group {clients.resource_group}"):
        group = list_group(clients, cluster)
    base = DriftResult(cluster, str(loaded.path), clients.resource_group, group.exists)
    if not group.exists:
        return base
    wanted = [(one.rack, body) for one in rendered.deployments for body in resources_of(one).values()]
    read = side_by_side(
        wanted, lambda pair: _look(clients, *pair), workers=READERS, stop=threading.Event(), grace_s=0.2
    )
    if read.interrupted:
        raise KeyboardInterrupt
    items: list[Item] = []
    unread: list[tuple[str, AzureFault]] = []
    for index, (_, body) in enumerate(wanted):
        answer = read.results[index]
        if isinstance(answer, AzureFault):
            unread.append((title_of(body), answer))
        else:
            items += answer
    asked = {f"{body['type']}/{body['name']}".casefold() for _, body in wanted}
    asked |= {disk for _, body in wanted if (disk := _disk_of(body))}
    for one in group.ours:
        if f"{one.type}/{one.name}".casefold() not in asked:
            items.append(Item(f"{one.type.rpartition('/')[2]}/{one.name}", one.rack, "", Sort.ADDED))
    judged, notes = _ignored(items, loaded.inventory.drift.ignore, today())
    return DriftResult(
        cluster,
        str(loaded.path),
        clients.resource_group,
        True,
        len(wanted) - len(unread),
        tuple(judged),
        tuple(unread),
        notes,
    )


def _look(clients: AzureClients, rack: str, wanted: dict[str, Any]) -> list[Item] | AzureFault:
    kind, title = str(wanted["type"]), title_of(wanted)
    path = str(wanted["name"]).split("/")
    resource_id = names.resource_id(clients.subscription, clients.resource_group, kind, *path)
    try:
        live = read_resource(clients, resource_id, str(wanted["apiVersion"]))
    except AzureError as error:
        return fault_from_exception(error)
    if live is None:
        return [Item(title, rack, "", Sort.GONE)]
    found = drifted(body_of(wanted), live)
    return [
        Item(title, rack, one.path, one.sort, one.wanted, one.live, effect)
        for one in found
        if (effect := _effect(kind, one)) is not Effect.NOISE
    ]


def _disk_of(body: dict[str, Any]) -> str:
    """A VM's OS disk is a resource of its own, which Azure makes with the VM's tags."""
    storage = (body.get("properties") or {}).get("storageProfile") or {}
    name = (storage.get("osDisk") or {}).get("name")
    return f"microsoft.compute/disks/{name}".casefold() if name else ""


def _effect(kind: str, one: Drifted) -> Effect:
    """Of putting it right: from what is live to what is rendered."""
    return meaning_of(kind, one.path, one.live, one.wanted).effect


def _ignored(
    items: Sequence[Item], ignore: Sequence[DriftIgnored], today: datetime.date
) -> tuple[list[Item], tuple[str, ...]]:
    from dataclasses import replace

    used: set[int] = set()
    judged = []
    for item in items:
        at = next((at for at, one in enumerate(ignore) if _matches(one.path, item)), None)
        if at is not None:
            used.add(at)
            if not _expired(ignore[at], today):
                item = replace(item, ignored=ignore[at].reason)
        judged.append(item)
    notes = [f"drift.ignore '{one.path}' expired on {one.until}" for one in ignore if _expired(one, today)]
    notes += [
        f"drift.ignore '{one.path}' fits nothing that differs"
        for at, one in enumerate(ignore)
        if at not in used and not _expired(one, today)
    ]
    return judged, tuple(notes)


def _expired(one: DriftIgnored, today: datetime.date) -> bool:
    return one.until is not None and datetime.date.fromisoformat(one.until) < today


def _matches(pattern: str, item: Item) -> bool:
    """`resource/name:property`, or a property of any resource; a resource as a whole is meant by `resource/name:`."""
    resource, colon, path = pattern.rpartition(":")
    fits_resource = not colon or fnmatch.fnmatchcase(item.resource.casefold(), resource.casefold())
    # A property without a resource never hides that a whole resource is missing.
    fits_path = fnmatch.fnmatchcase(item.path.casefold(), path.casefold()) and bool(colon or item.path)
    return fits_resource and fits_path
