"""Region: what the control plane works on, and the life of a resource: checked, begun, finished, removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ndctl.sim.arm import ids
from ndctl.sim.arm.catalogue import LOCATIONS, TYPES, location_name
from ndctl.sim.arm.errors import ArmError, group_not_found, invalid_parameter, not_found
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.planted import Planted
from ndctl.sim.arm.refusals import Refusals
from ndctl.sim.arm.settings import Settings
from ndctl.sim.arm.store import Record, Store
from ndctl.sim.arm.work import Again, Work, timestamp
from ndctl.sim.world import World

if TYPE_CHECKING:
    from ndctl.sim.arm.authorization import Authorization

Body = dict[str, Any]


class Kind:
    """How one resource type behaves; the default is a plain tracked resource.

    steps: pulses that a creation takes.
    """

    type = ""
    steps = 1
    stored = True  # False: it lives inside its parent
    immediate = False  # True: put and deleted within the request, without a long-running operation

    def lookup(self, region: Region, rid: ResourceId) -> Record | None:
        return region.store.get("resources", rid.key)

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        """Refuse what can be seen without the rest of the region: called at validation and again at the PUT."""

    def cores(self, region: Region, rid: ResourceId, body: Body) -> Mapping[str, int]:
        """vCPUs that this body asks for beyond what the resource has now, by quota family."""
        return {}

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        """The body as it stands from now on, with what Azure fills in; references are checked here."""
        return body

    def finish(self, region: Region, rid: ResourceId, record: Record) -> None:
        """Called when provisioning ends; may change `record`; ArmError makes it Failed."""

    def may_delete(self, region: Region, rid: ResourceId, record: Record) -> None:
        """ArmError when something still uses it."""

    def removed(self, region: Region, rid: ResourceId, record: Record) -> None:
        """After it is gone."""

    def view(self, region: Region, rid: ResourceId, record: Record, expand: str = "") -> Body:
        return dict(record["body"])


@dataclass(slots=True)
class Region:
    """One thread only, the server's event loop."""

    settings: Settings
    store: Store
    world: World
    work: Work
    planted: Planted
    refusals: Refusals
    authorization: Authorization
    kinds: dict[str, Kind] = field(default_factory=dict)

    def kind(self, type_name: str) -> Kind:
        found = self.kinds.get(type_name.lower())
        if found is None:
            namespace, _, rest = type_name.partition("/")
            raise ArmError(
                404,
                "InvalidResourceType",
                f"The resource type '{rest}' could not be found in the namespace '{namespace}' for this region.",
            )
        return found

    # groups

    def group(self, subscription: str, name: str) -> Record:
        found = self.store.get("groups", ids.group_key(subscription, name))
        if found is None:
            raise group_not_found(name)
        return found

    # resources

    def find(self, rid: ResourceId) -> Record | None:
        kind = self.kinds.get(rid.type.lower())
        return kind.lookup(self, rid) if kind else None

    def need(self, rid: ResourceId) -> Record:
        record = self.find(rid)
        if record is None:
            if not self.store.has("groups", rid.group_key):
                raise group_not_found(rid.group)
            raise not_found(str(rid), rid.group, rid.type, rid.name)
        return record

    def save(self, rid: ResourceId, record: Record) -> None:
        if self.kind(rid.type).stored:
            self.store.put("resources", rid.key, record)

    def of_type(self, type_name: str, group: str = "") -> Iterator[tuple[ResourceId, Record]]:
        """Resources of one type; `group` is a group key, "" for all. Records are for reading."""
        for _, record in self.store.scan("resources"):
            if record["type"].lower() == type_name.lower():
                rid = ids.parse_id(record["id"])
                if rid is not None and group in ("", rid.group_key):
                    yield rid, record

    def in_group(self, group: str) -> Iterator[tuple[ResourceId, Record]]:
        for _, record in self.store.scan("resources"):
            rid = ids.parse_id(record["id"])
            if rid is not None and rid.group_key == group:
                yield rid, record

    def users_of(self, resource_id: str, *, besides: str = "") -> list[ResourceId]:
        """Resources whose body names `resource_id` (or a part of it) somewhere."""
        wanted = resource_id.lower()
        found = []
        for _, record in self.store.scan("resources"):
            if record["id"].lower() in (wanted, besides.lower()):
                continue
            if any(one == wanted or one.startswith(wanted + "/") for one in references(record["body"])):
                rid = ids.parse_id(record["id"])
                if rid is not None:
                    found.append(rid)
        return found

    def check(self, rid: ResourceId, body: Body) -> None:
        """Everything that needs no other resource: location, tags, policy, and what its kind checks."""
        kind = self.kind(rid.type)
        known = TYPES[rid.type.lower()]
        if known.tracked:
            location = body.get("location")
            if not location:
                raise ArmError(400, "LocationRequired", "The location property is required for this definition.")
            if location_name(str(location)) not in LOCATIONS:
                raise ArmError(
                    400,
                    "LocationNotAvailableForResourceType",
                    f"The provided location '{location}' is not available for resource type '{rid.type}'. "
                    f"List of available regions for the resource type is '{','.join(LOCATIONS)}'.",
                )
        _check_tags(body.get("tags"))
        self.planted.policy(rid)
        self.refusals.check(rid, body)
        kind.check(self, rid, body)

    def begin_put(self, rid: ResourceId, body: Body) -> tuple[Record, Record, bool]:
        """(resource record, operation, whether it is new). The resource is Creating or Updating from now on."""
        self.group(rid.subscription, rid.group)
        self.check(rid, body)
        kind = self.kind(rid.type)
        before = self.find(rid)
        self._refuse_when_busy(rid)
        if before is not None and before["body"].get("location"):
            was, wanted = (location_name(one) for one in (before["body"]["location"], str(body.get("location", ""))))
            if was != wanted:
                raise ArmError(
                    409,
                    "InvalidResourceLocation",
                    f"The resource '{rid.name}' already exists in location '{was}' in resource group '{rid.group}'. "
                    f"A resource with the same name cannot be created in location '{wanted}'. "
                    "Please select a new resource name.",
                )
        sent = body
        body = kind.begin(self, rid, _copy(body), before)
        body = {"name": rid.names[-1], "id": str(rid), "type": rid.type, **_without(body, "name", "id", "type")}
        if "location" in body:
            body["location"] = location_name(body["location"])
        properties = dict(body.get("properties") or {})
        properties["provisioningState"] = "Updating" if before else "Creating"
        body["properties"] = properties
        record = {
            "id": str(rid),
            "type": rid.type,
            "group": rid.group_key,
            "body": body,
            "sent": sent,
            "created": before["created"] if before else timestamp(),
        }
        self.save(rid, record)
        operation = self.work.begin("put", str(rid), steps=kind.steps)
        return record, operation, before is None

    def finish_put(self, operation: Record) -> Body:
        rid = ids.parse_id(operation["target"])
        record = self.find(rid) if rid else None
        if rid is None or record is None:
            raise ArmError(409, "Canceled", "The resource was deleted while it was being created.")
        kind = self.kind(rid.type)
        try:
            kind.finish(self, rid, record)
        except ArmError:
            record["body"]["properties"]["provisioningState"] = "Failed"
            self.save(rid, record)
            raise
        record["body"]["properties"]["provisioningState"] = "Succeeded"
        self.save(rid, record)
        return kind.view(self, rid, record)

    def begin_delete(self, rid: ResourceId) -> Record:
        record = self.need(rid)
        self._refuse_when_busy(rid)
        self.planted.refuse_delete(rid)
        self.kind(rid.type).may_delete(self, rid, record)
        properties = record["body"].setdefault("properties", {})
        properties["provisioningState"] = "Deleting"
        self.save(rid, record)
        return self.work.begin("delete", str(rid), steps=1)

    def _refuse_when_busy(self, rid: ResourceId) -> None:
        if self.work.under_way(str(rid)):
            raise ArmError(
                409,
                "AnotherOperationInProgress",
                f"Another operation on this or dependent resource is in progress. Resource: {rid}. To retrieve "
                "the status of the operation use the URI of the earlier answer.",
            )

    def finish_delete(self, operation: Record) -> None:
        rid = ids.parse_id(operation["target"])
        if rid is not None and self.planted.delete_never_ends(rid):
            raise Again
        if rid is not None:
            self.remove(rid)

    def remove(self, rid: ResourceId) -> None:
        record = self.find(rid)
        if record is None:
            return
        self.store.drop("resources", rid.key)
        for key, _ in list(self.store.scan("resources", rid.key + "/")):
            self.store.drop("resources", key)
        self.kind(rid.type).removed(self, rid, record)

    def view(self, rid: ResourceId, record: Record, expand: str = "") -> Body:
        return self.kind(rid.type).view(self, rid, record, expand)


def references(value: Any) -> Iterator[str]:
    """Every resource id that stands anywhere in a body, in small letters."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str):
                if key == "id" and inner.startswith("/subscriptions/"):
                    yield inner.lower()
            else:
                yield from references(inner)
            if key.startswith("/subscriptions/"):
                yield key.lower()
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def need_references(region: Region, rid: ResourceId, body: Body) -> None:
    """ArmError when a resource the body names is of a type the region knows and does not exist."""
    own = str(rid).lower()
    for reference in references(body):
        if reference == own or reference.startswith(own + "/"):
            continue
        target = ids.parse_id(reference)
        if target is None or target.type.lower() not in region.kinds:
            continue
        record = region.find(target)
        if record is None:
            raise ArmError(
                400,
                "InvalidResourceReference",
                f"Resource {target} referenced by resource {rid} was not found. Please make sure that the referenced "
                "resource exists, and that both resources are in the same region.",
            )
        if record["body"].get("properties", {}).get("provisioningState") == "Failed":
            raise ArmError(
                409,
                "ReferencedResourceNotProvisioned",
                f"Cannot proceed with operation because resource {target} used by resource {rid} is not in Succeeded "
                "state. Resource is in Failed state and the last operation that updated the resource has failed.",
            )


def _check_tags(tags: Any) -> None:
    if tags is None:
        return
    if not isinstance(tags, Mapping) or not all(isinstance(one, str) for one in tags.values()):
        raise ArmError(400, "InvalidRequestContent", "The request content was invalid: tags must map text to text.")
    if len(tags) > 50:
        raise ArmError(400, "TagsNotAllowed", f"A resource may have 50 tags, this one has {len(tags)}.")
    for name, value in tags.items():
        if set(name) & set("<>%&\\?/") or len(name) > 512 or len(value) > 256:
            raise invalid_parameter("tags", f"The tag name or value '{name}' is not allowed.")


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _without(body: Body, *keys: str) -> Body:
    return {key: value for key, value in body.items() if key not in keys}
