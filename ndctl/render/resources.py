"""The resources of a rendered deployment with the values of its parameters put in their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ndctl.render.rendered import Deployment

# What belongs to the deployment and not to the resource's state.
_OF_DEPLOYMENT = ("apiVersion", "dependsOn", "type", "name")


def resources_of(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """By "type/name" in small letters, in the order of the template. A parameter without a value becomes None."""
    values = {f"[parameters('{name}')]": entry.get("value") for name, entry in deployment.parameters.items()}
    listed = deployment.template.get("resources", [])
    filled = (_filled(one, values) for one in (listed.values() if isinstance(listed, Mapping) else listed))
    return {f"{one['type']}/{one['name']}".casefold(): one for one in filled}


def body_of(resource: Mapping[str, Any]) -> dict[str, Any]:
    """What of a resource is its state."""
    return {key: value for key, value in resource.items() if key not in _OF_DEPLOYMENT}


def title_of(resource: Mapping[str, Any]) -> str:
    """virtualMachineScaleSets/swc-a-rack07"""
    return f"{str(resource.get('type', '')).rpartition('/')[2]}/{resource.get('name', '')}"


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return values.get(value, value)
    if isinstance(value, Mapping):
        return {key: _filled(item, values) for key, item in value.items()}
    return [_filled(item, values) for item in value] if isinstance(value, list) else value
