"""Subscriptions, resource groups, lists of resources by filter, and tags at a scope."""

from __future__ import annotations

import re
from collections.abc import Callable

from ndctl.sim.arm import ids
from ndctl.sim.arm.catalogue import LOCATIONS, TYPES, location_name
from ndctl.sim.arm.errors import ArmError, group_not_found
from ndctl.sim.arm.http import Answer, Request, page
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.region import Body, Region
from ndctl.sim.arm.store import Record

# Whatever stands earlier uses what stands later.
_DELETE_ORDER = ("virtualmachinescalesets", "virtualmachines", "interconnectblocks", "interconnectgroups",
                 "networkinterfaces", "virtualnetworks", "natgateways")  # fmt: skip
_TERM = re.compile(r"^(resourceType|tagName|tagValue|name|location|resourceGroup)\s+eq\s+'([^']*)'$", re.IGNORECASE)


class Groups:
    def __init__(self, region: Region) -> None:
        self._region = region
        region.work.handle("group-delete", self._finish_delete)

    def subscription(self, subscription: str) -> Body:
        return {
            "id": f"/subscriptions/{subscription}",
            "subscriptionId": subscription,
            "tenantId": self._region.settings.tenant,
            "displayName": "Simulated subscription",
            "state": "Enabled",
            "subscriptionPolicies": {"locationPlacementId": "Internal_2014-09-01", "quotaId": "Internal_2014-09-01"},
            "authorizationSource": "RoleBased",
        }

    def serve(self, request: Request, subscription: str, name: str) -> Answer:
        """One resource group."""
        key = ids.group_key(subscription, name)
        record = self._region.store.get("groups", key)
        if request.method == "HEAD":
            return Answer(204 if record else 404)
        if request.method == "PUT":
            return self._put(request, subscription, name, record)
        if record is None:
            raise group_not_found(name)
        if request.method == "GET":
            return Answer(200, record)
        if request.method == "PATCH":
            record |= {k: v for k, v in request.object().items() if k in ("tags", "managedBy")}
            self._region.store.put("groups", key, record)
            return Answer(200, record)
        if request.method == "DELETE":
            self._region.planted.refuse_group_delete(record["id"], subscription, record["name"])
            for rid, _ in self._region.in_group(key):
                self._region.planted.refuse_delete(rid)
            record["properties"] = {"provisioningState": "Deleting"}
            self._region.store.put("groups", key, record)
            operation = self._region.work.begin("group-delete", record["id"], steps=2, key=key)
            url = f"{self._region.settings.endpoint}/subscriptions/{subscription}/operationresults/{operation['id']}"
            retry = str(self._region.settings.retry_after)
            return Answer(202, None, {"Location": f"{url}?api-version={request.version}", "Retry-After": retry})
        raise ArmError(405, "MethodNotAllowed", f"A resource group does not take {request.method}.")

    def listed(self, request: Request, subscription: str) -> Answer:
        prefix = f"{subscription}/".lower()
        return page(
            request, self._region.settings.endpoint, (one for _, one in self._region.store.scan("groups", prefix))
        )

    def resources(self, request: Request, subscription: str, name: str = "") -> Answer:
        """Tracked resources of a group, or of the subscription, narrowed by $filter."""
        if name:
            self._region.group(subscription, name)
        terms = _terms(request.query.get("$filter", ""))
        expand = request.query.get("$expand", "").lower()
        prefix = ids.group_key(subscription, name) if name else f"{subscription}/".lower()
        found = []
        for _, record in self._region.store.scan("resources"):
            rid = ids.parse_id(record["id"])
            if rid is None or not TYPES[rid.type.lower()].tracked:
                continue
            inside = rid.group_key == prefix if name else rid.group_key.startswith(prefix)
            if inside and _fits(rid, record, terms):
                found.append(_brief(record, expand))
        return page(request, self._region.settings.endpoint, found)

    def tags(self, request: Request, scope: str) -> Answer:
        """Microsoft.Resources/tags/default at a resource or a resource group."""
        rid = ids.parse_id(scope)
        parts = [part for part in scope.split("/") if part]
        if rid is not None:
            record = self._region.need(rid)
            holder = record["body"]
        elif len(parts) == 4:
            holder = record = self._region.group(parts[1], parts[3])
        else:
            raise ArmError(400, "InvalidScope", f"Tags cannot be kept at '{scope}'.")
        tags = dict(holder.get("tags") or {})
        if request.method in ("PUT", "PATCH", "DELETE"):
            asked = request.object() if request.method != "DELETE" else {}
            given = (asked.get("properties") or {}).get("tags") or {}
            operation = str(asked.get("operation", "Replace")).lower()
            if request.method == "PATCH" and operation == "merge":
                tags |= given
            elif request.method == "PATCH" and operation == "delete":
                tags = {key: value for key, value in tags.items() if key not in given}
            else:
                tags = dict(given)
            holder["tags"] = tags
            if rid is not None:
                self._region.save(rid, record)
            else:
                self._region.store.put("groups", ids.group_key(parts[1], parts[3]), record)
        body = {
            "id": f"{scope}/providers/Microsoft.Resources/tags/default",
            "name": "default",
            "type": "Microsoft.Resources/tags",
            "properties": {"tags": tags},
        }
        return Answer(200, None if request.method == "DELETE" else body)

    def _put(self, request: Request, subscription: str, name: str, before: Record | None) -> Answer:
        body = request.object()
        location = location_name(str(body.get("location", "")))
        if not location:
            raise ArmError(400, "LocationRequired", "The location property is required for this definition.")
        if location not in LOCATIONS:
            raise ArmError(
                400,
                "LocationNotAvailableForResourceGroup",
                f"The provided location '{body['location']}' is not available for resource group. List of available "
                f"regions is '{','.join(LOCATIONS)}'.",
            )
        if not re.match(r"^[-\w\._\(\)]{0,89}[-\w_\(\)]$", name):
            raise ArmError(400, "InvalidResourceGroup", f"The provided resource group name '{name}' is not valid.")
        if before is not None and before["location"] != location:
            raise ArmError(
                409,
                "InvalidResourceGroupLocation",
                f"Invalid resource group location '{location}'. The Resource group already exists in location "
                f"'{before['location']}'.",
            )
        if before is not None and before["properties"]["provisioningState"] == "Deleting":
            raise ArmError(
                409, "ResourceGroupBeingDeleted", f"The resource group '{name}' is in deprovisioning state and cannot "
                "perform this operation."
            )  # fmt: skip
        record = {
            "id": ids.group_id(subscription, name),
            "name": name,
            "type": "Microsoft.Resources/resourceGroups",
            "location": location,
            "tags": body.get("tags") or {},
            "properties": {"provisioningState": "Succeeded"},
        }
        self._region.store.put("groups", ids.group_key(subscription, name), record)
        return Answer(200 if before else 201, record)

    def _finish_delete(self, operation: Record) -> None:
        key = operation["key"]
        inside = sorted((rid for rid, _ in self._region.in_group(key)), key=_rank)
        for rid in inside:
            self._region.remove(rid)
        for name, record in self._region.store.scan("deployments"):
            if record["group"] == key:
                self._region.store.drop("deployments", name)
        self._region.store.drop("groups", key)


def _rank(rid: ResourceId) -> int:
    kind = rid.types[0].lower()
    return _DELETE_ORDER.index(kind) if kind in _DELETE_ORDER else len(_DELETE_ORDER)


def _terms(text: str) -> dict[str, str]:
    found = {}
    for part in re.split(r"\s+and\s+", text.strip(), flags=re.IGNORECASE) if text.strip() else []:
        match = _TERM.match(part.strip())
        if match is None:
            raise ArmError(
                400, "InvalidFilterInQueryString", f"Invalid $filter '{text}' specified in the query string."
            )
        found[match[1].lower()] = match[2]
    return found


def _fits(rid: ResourceId, record: Record, terms: dict[str, str]) -> bool:
    tags = {key.lower(): value for key, value in (record["body"].get("tags") or {}).items()}
    checks: dict[str, Callable[[str], bool]] = {
        "resourcetype": lambda value: rid.type.lower() == value.lower(),
        "name": lambda value: rid.names[-1].lower() == value.lower(),
        "location": lambda value: record["body"].get("location") == location_name(value),
        "resourcegroup": lambda value: rid.group.lower() == value.lower(),
        "tagname": lambda value: value.lower() in tags,
        "tagvalue": lambda value: tags.get(terms.get("tagname", "").lower()) == value,
    }
    return all(checks[key](value) for key, value in terms.items())


def _brief(record: Record, expand: str) -> Body:
    """A resource as lists show it: without its properties."""
    kept = ("id", "name", "type", "location", "tags", "sku", "zones", "kind", "managedBy")
    brief = {key: record["body"][key] for key in kept if key in record["body"]}
    if "provisioningstate" in expand:
        brief["provisioningState"] = record["body"].get("properties", {}).get("provisioningState", "Succeeded")
    if "createdtime" in expand:
        brief["createdTime"] = record["created"]
    return brief
