"""What-if: what a deployment would change, property by property."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ndctl.sim.arm.catalogue import TYPES, location_name
from ndctl.sim.arm.region import Body, Region
from ndctl.sim.arm.template import Wanted

# Written by the client and never shown again: what-if has nothing to compare them with.
_WRITE_ONLY = ("customdata", "adminpassword", "userdata")
_MISSING: Any = object()


def changes(region: Region, wanted: Iterable[Wanted], group: str, *, payloads: bool) -> list[Body]:
    """One entry per resource of the template, then the group's other resources as Ignore."""
    found = []
    named = set()
    for one in wanted:
        named.add(one.rid.key)
        found.append(_change(region, one, payloads))
    for rid, record in region.in_group(group):
        if rid.key not in named and TYPES[rid.type.lower()].tracked:
            entry: Body = {"resourceId": str(rid), "changeType": "Ignore"}
            if payloads:
                view = region.view(rid, record)
                entry["before"] = entry["after"] = _shown(view)
            found.append(entry)
    return found


def _change(region: Region, one: Wanted, payloads: bool) -> Body:
    entry: Body = {"resourceId": str(one.rid)}
    after = {"apiVersion": one.api_version, "id": str(one.rid), "type": one.rid.type, "name": one.rid.names[-1]}
    after |= one.body
    if "location" in after:
        after["location"] = location_name(str(after["location"]))
    if one.unknown:
        reason = (
            "Changes of the resource cannot be predicted: it uses reference(), known only while the deployment runs."
        )
        return {**entry, "changeType": "Unsupported", "unsupportedReason": reason}
    record = region.find(one.rid)
    if record is None:
        entry["changeType"] = "Create"
        return {**entry, "after": after} if payloads else entry
    before = region.view(one.rid, record)
    delta = compare(_comparable(before), _comparable(one.body), record["sent"])
    entry["changeType"] = "Modify" if delta else "NoChange"
    if payloads:
        entry |= {"before": _shown(before), "after": {**after, "apiVersion": one.api_version}}
        entry["delta"] = delta
    return entry


def compare(before: Mapping[str, Any], after: Mapping[str, Any], sent: Mapping[str, Any] | None = None) -> list[Body]:
    """Differences of two objects. A property that only `before` has counts only where the client itself once sent it:
    what Azure filled in is no difference."""
    sent = sent if isinstance(sent, Mapping) else {}
    found: list[Body] = []
    earlier = {key.lower(): (key, value) for key, value in before.items()}
    mine = {key.lower(): value for key, value in sent.items()}
    for key, value in after.items():
        if key.lower() in _WRITE_ONLY:
            continue
        _, was = earlier.get(key.lower(), (key, _MISSING))
        found += _property(key, was, value, mine.get(key.lower()))
    later = {key.lower() for key in after}
    for key, value in before.items():
        if key.lower() not in later and key.lower() in mine:
            found.append({"path": key, "propertyChangeType": "Delete", "before": value})
    return found


def _property(path: str, was: Any, value: Any, sent: Any) -> list[Body]:
    if was is _MISSING:
        if value is None or value == {} or value == []:
            return []
        return [{"path": path, "propertyChangeType": "Create", "after": value}]
    if isinstance(was, Mapping) and isinstance(value, Mapping):
        inner = compare(was, value, sent)
        return [{**one, "path": f"{path}.{one['path']}"} for one in inner]
    if isinstance(was, list) and isinstance(value, list):
        children = _items(was, value, sent if isinstance(sent, list) else [])
        return [{"path": path, "propertyChangeType": "Array", "children": children}] if children else []
    if _same(path, was, value):
        return []
    return [{"path": path, "propertyChangeType": "Modify", "before": was, "after": value}]


def _items(was: list[Any], value: list[Any], sent: list[Any]) -> list[Body]:
    """Items with names are paired by name, others by place."""
    found: list[Body] = []
    named = all(isinstance(one, Mapping) and "name" in one for one in (*was, *value))
    places = {str(one["name"]).lower(): index for index, one in enumerate(was)} if named else {}
    paired = set()
    for index, one in enumerate(value):
        at = places.get(str(one["name"]).lower(), -1) if named else index
        if not 0 <= at < len(was):
            found.append({"path": str(index), "propertyChangeType": "Create", "after": one})
            continue
        paired.add(at)
        told = sent[at] if at < len(sent) else None
        if isinstance(one, Mapping) and isinstance(was[at], Mapping):
            inner = compare(was[at], one, told)
            if inner:
                found.append({"path": str(index), "propertyChangeType": "Modify", "children": inner})
        elif not _same("", was[at], one):
            found.append({"path": str(index), "propertyChangeType": "Modify", "before": was[at], "after": one})
    for index, one in enumerate(was):
        if index not in paired:
            found.append({"path": str(index), "propertyChangeType": "Delete", "before": one})
    return found


def _same(path: str, one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        ids = one.startswith("/subscriptions/") or path.rpartition(".")[2] in ("id", "location", "vmSize", "protocol")
        return one.lower() == other.lower() if ids else one == other
    return bool(one == other) and type(one) is type(other)


def _comparable(body: Mapping[str, Any]) -> Body:
    shown = {key: value for key, value in body.items() if key not in ("id", "name", "type", "etag", "apiVersion")}
    if "location" in shown:
        shown["location"] = location_name(str(shown["location"]))
    return shown


def _shown(view: Mapping[str, Any]) -> Body:
    """A resource as what-if prints it: with its newest API version, without what only Azure writes."""
    kind = TYPES[str(view["type"]).lower()]
    properties = {k: v for k, v in (view.get("properties") or {}).items() if k not in ("provisioningState", "etag")}
    shown = {"apiVersion": kind.versions[-1], **{k: v for k, v in view.items() if k != "etag"}}
    if "properties" in view:
        shown["properties"] = properties
    return shown
