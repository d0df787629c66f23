"""The template functions that this region knows."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ndctl.sim.arm import ids
from ndctl.sim.arm.catalogue import canonical_type
from ndctl.sim.arm.expressions import NotYetKnown


def functions_for(
    subscription: str, group: str, location: str, tenant: str, deployment: str, endpoint: str
) -> dict[str, Callable[..., Any]]:
    """Functions by name in small letters, for a deployment into one resource group."""

    def resource_id(*arguments: str) -> str:
        in_subscription, in_group, rest = subscription, group, list(arguments)
        while rest and "/" not in rest[0]:
            # resourceId([subscriptionId], [resourceGroupName], type, name...)
            if len(rest) > 1 and "/" not in rest[1]:
                in_subscription, rest = rest[0], rest[1:]
            in_group, rest = rest[0], rest[1:]
        kind, *names = rest
        namespace, *types = canonical_type(kind).split("/")
        if len(types) != len(names):
            raise ValueError(f"{kind} needs {len(types)} names and has {len(names)}")
        return str(ids.make_id(in_subscription, in_group, namespace, tuple(types), tuple(names)))

    def subscription_resource_id(kind: str, *names: str) -> str:
        namespace, *types = canonical_type(kind).split("/")
        pairs = "".join(f"/{one}/{name}" for one, name in zip(types, names, strict=True))
        return f"/subscriptions/{subscription}/providers/{namespace}{pairs}"

    def later(*_: Any) -> Any:
        raise NotYetKnown

    return {
        **_PLAIN,
        "resourceid": resource_id,
        "subscriptionresourceid": subscription_resource_id,
        "resourcegroup": lambda: {
            "id": ids.group_id(subscription, group),
            "name": group,
            "type": "Microsoft.Resources/resourceGroups",
            "location": location,
            "tags": {},
            "properties": {"provisioningState": "Succeeded"},
        },
        "subscription": lambda: {
            "id": f"/subscriptions/{subscription}",
            "subscriptionId": subscription,
            "tenantId": tenant,
            "displayName": "Simulated subscription",
        },
        "tenant": lambda: {"tenantId": tenant},
        "deployment": lambda: {"name": deployment, "properties": {"mode": "Incremental"}},
        "environment": lambda: {"name": "Sim", "resourceManager": endpoint},
        "reference": later,
        "listkeys": later,
    }


def _concat(*parts: Any) -> Any:
    if parts and all(isinstance(part, list) for part in parts):
        return [one for part in parts for one in part]
    return "".join(_text(part) for part in parts)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _format(pattern: str, *arguments: Any) -> str:
    return pattern.format(*(_text(one) for one in arguments))


def _union(*values: Any) -> Any:
    if isinstance(values[0], Mapping):
        return {key: value for one in values for key, value in one.items()}
    found: list[Any] = []
    for one in (item for part in values for item in part):
        if one not in found:
            found.append(one)
    return found


def _contains(container: Any, item: Any) -> bool:
    if isinstance(container, Mapping):
        return str(item).lower() in {str(key).lower() for key in container}
    return item in container


def _equals(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _unique(*parts: str) -> str:
    digest = hashlib.sha256("-".join(str(part) for part in parts).encode()).digest()
    return base64.b32encode(digest).decode().lower()[:13]


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _split(text: str, by: Any) -> list[str]:
    marks = [by] if isinstance(by, str) else list(by)
    for mark in marks[1:]:
        text = text.replace(mark, marks[0])
    return text.split(marks[0])


_PLAIN: dict[str, Callable[..., Any]] = {
    "concat": _concat,
    "format": _format,
    "string": _text,
    "int": int,
    "bool": lambda value: str(value).lower() in ("true", "1"),
    "length": len,
    "tolower": lambda text: str(text).lower(),
    "toupper": lambda text: str(text).upper(),
    "trim": lambda text: str(text).strip(),
    "substring": lambda text, start, count=None: text[start : None if count is None else start + count],
    "replace": lambda text, old, new: str(text).replace(old, new),
    "split": _split,
    "join": lambda items, by: by.join(_text(item) for item in items),
    "padleft": lambda text, width, fill=" ": _text(text).rjust(width, fill),
    "startswith": lambda text, start: str(text).lower().startswith(str(start).lower()),
    "endswith": lambda text, end: str(text).lower().endswith(str(end).lower()),
    "indexof": lambda text, part: str(text).lower().find(str(part).lower()),
    "contains": _contains,
    "empty": lambda value: value is None or len(value) == 0,
    "first": lambda value: value[0],
    "last": lambda value: value[-1],
    "skip": lambda value, count: value[count:],
    "take": lambda value, count: value[:count],
    "range": lambda start, count: list(range(start, start + count)),
    "union": _union,
    "createarray": lambda *items: list(items),
    "createobject": lambda *items: dict(zip(items[::2], items[1::2], strict=True)),
    "array": lambda value: value if isinstance(value, list) else [value],
    "coalesce": _coalesce,
    "equals": _equals,
    "not": lambda value: not value,
    "and": lambda *values: all(values),
    "or": lambda *values: any(values),
    "if": lambda condition, yes, no: yes if condition else no,
    "true": lambda: True,
    "false": lambda: False,
    "null": lambda: None,
    "greater": lambda one, other: one > other,
    "greaterorequals": lambda one, other: one >= other,
    "less": lambda one, other: one < other,
    "lessorequals": lambda one, other: one <= other,
    "add": lambda one, other: one + other,
    "sub": lambda one, other: one - other,
    "mul": lambda one, other: one * other,
    "div": lambda one, other: int(one / other),
    "mod": lambda one, other: one % other,
    "min": lambda *values: min(values[0] if isinstance(values[0], list) else values),
    "max": lambda *values: max(values[0] if isinstance(values[0], list) else values),
    "base64": lambda text: base64.b64encode(str(text).encode()).decode(),
    "base64tostring": lambda text: base64.b64decode(text).decode(),
    "json": json.loads,
    "guid": lambda *parts: str(uuid.uuid5(uuid.NAMESPACE_OID, "-".join(str(part) for part in parts))),
    "uniquestring": _unique,
}
