"""Holds rendered JSON against the official SDK's model classes: unknown keys, wrong kinds, read-only properties.

The SDK is the outside opinion here: its models are generated from the same API description ARM validates with.
"""

from __future__ import annotations

import datetime
import sys
import types
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any

import azure.mgmt.compute.models as compute
import azure.mgmt.msi.models as msi
import azure.mgmt.network.models as network

MODELS: dict[str, type] = {
    "Microsoft.Compute/interconnectBlocks": compute.InterconnectBlock,
    "Microsoft.Compute/virtualMachineScaleSets": compute.VirtualMachineScaleSet,
    "Microsoft.Compute/virtualMachines": compute.VirtualMachine,
    "Microsoft.ManagedIdentity/userAssignedIdentities": msi.Identity,
    "Microsoft.Network/interconnectGroups": network.InterconnectGroup,
    "Microsoft.Network/natGateways": network.NatGateway,
    "Microsoft.Network/networkInterfaces": network.NetworkInterface,
    "Microsoft.Network/networkSecurityGroups": network.NetworkSecurityGroup,
    "Microsoft.Network/publicIPAddresses": network.PublicIPAddress,
    "Microsoft.Network/virtualNetworks": network.VirtualNetwork,
}
# Keys of a template's resource that are ARM's own and not part of what the resource provider gets.
ARM_KEYS = {"type", "apiVersion", "name", "dependsOn"}


def resource_problems(resource: dict[str, Any]) -> list[str]:
    """Every disagreement between one template resource and its model, as "path: what"."""
    body = {key: value for key, value in resource.items() if key not in ARM_KEYS}
    problems = list(_model_problems(MODELS[resource["type"]], body, ""))
    return problems + [f"{key}: missing" for key in ("location", "tags") if key not in body]


def is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("[") and value.endswith("]") and not value.startswith("[[")


def _model_problems(model: type, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {type(value).__name__} where {model.__name__} is wanted"
        return
    known = _fields(model)
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        if key not in known:
            yield f"{here}: {model.__name__} has no such key"
            continue
        annotation, read_only = known[key]
        if read_only:
            yield f"{here}: read-only"
        else:
            yield from _kind_problems(annotation, item, here)


def _fields(model: type) -> dict[str, tuple[Any, bool]]:
    """JSON name → (annotation, read-only?) of a model of either SDK generation."""
    if hasattr(model, "_attribute_map"):
        return {
            entry["key"]: (
                {"str": str, "{str}": dict[str, str]}.get(entry["type"], str),
                bool(model._validation.get(attribute, {}).get("readonly")),
            )
            for attribute, entry in model._attribute_map.items()
        }
    sample = model({})
    hints = _hints(model)
    return {
        field._rest_name: (hints[attribute], field._visibility == ["read"])
        for attribute, field in sample._attr_to_rest_field.items()
    }


def _hints(model: type) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for ancestor in reversed(model.__mro__):
        module = sys.modules[ancestor.__module__]
        package = sys.modules.get(ancestor.__module__.rpartition(".models")[0] + ".models")
        names = {**vars(module), "_models": package}
        for attribute, annotation in vars(ancestor).get("__annotations__", {}).items():
            hints[attribute] = _resolved(annotation, names)
    return hints


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"x": annotation})
    return typing.get_type_hints(holder, globalns=names, localns=names)["x"]


def _kind_problems(annotation: Any, value: Any, path: str) -> Iterator[str]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        yield from _union_problems([one for one in arguments if one is not type(None)], value, path)
    elif origin in (list, typing.List):  # noqa: UP006
        if not isinstance(value, list):
            yield f"{path}: {type(value).__name__} where a list is wanted"
            return
        for index, item in enumerate(value):
            yield from _kind_problems(arguments[0], item, f"{path}[{index}]")
    elif origin in (dict, typing.Dict):  # noqa: UP006
        if not isinstance(value, dict):
            yield f"{path}: {type(value).__name__} where a map is wanted"
            return
        for key, item in value.items():
            yield from _kind_problems(arguments[1], item, f"{path}.{key}")
    elif (isinstance(annotation, type) and hasattr(annotation, "_is_model")) or _is_model(annotation):
        yield from _model_problems(annotation, value, path)
    elif is_expression(value):
        return
    elif not _scalar_fits(annotation, value):
        yield f"{path}: {value!r} is no {getattr(annotation, '__name__', annotation)}"


def _union_problems(choices: list[Any], value: Any, path: str) -> Iterator[str]:
    """Optional[X] is X; Union[str, SomeEnum] is that enum, since an unknown word is a typing mistake here."""
    enums = [one for one in choices if isinstance(one, type) and issubclass(one, Enum)]
    if enums and not is_expression(value):
        words = [member.value for enum in enums for member in enum]
        if value not in words:
            yield f"{path}: {value!r} is none of {', '.join(map(str, words))}"
    elif not enums:
        yield from min((list(_kind_problems(one, value, path)) for one in choices), key=len)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and any(base.__name__ == "_MyMutableMapping" for base in annotation.__mro__)


def _scalar_fits(annotation: Any, value: Any) -> bool:
    if annotation is bool:
        return isinstance(value, bool)
    if annotation in (int, float):
        return isinstance(value, (int, annotation)) and not isinstance(value, bool)
    if annotation in (str, bytes, datetime.datetime, datetime.timedelta):
        return isinstance(value, str)
    return annotation is Any
