"""Holds rendered JSON against the published JSON Schemas of ARM resources, closed against unknown keys."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

SCHEMAS = Path(__file__).parents[3] / "shared" / "azure-schemas"
FILES = {
    ("Microsoft.Compute", "2026-03-01"): "2026-03-01/Microsoft.Compute.json",
    ("Microsoft.Network", "2025-07-01"): "2025-07-01/Microsoft.Network.NRP.json",
}
_HOST = "https://schema.management.azure.com/schemas/"
_PLACE_IN_TEMPLATE = {"dependsOn"}


def schema_problems(resource: dict[str, Any]) -> list[str] | None:
    """Every violation as "path: what"; None when no schema is there for this type and version."""
    provider, kind = resource["type"].split("/", 1)
    file = FILES.get((provider, resource["apiVersion"]))
    if file is None:
        return None
    body = {key: value for key, value in resource.items() if key not in _PLACE_IN_TEMPLATE}
    found: list[str] = []
    for error in _validator(file, kind.replace("/", "_")).iter_errors(body):
        found += _innermost(error)
    return found


def _innermost(error: jsonschema.ValidationError) -> list[str]:
    """Below a oneOf (value or expression) the deepest complaint is the one that names the typo."""
    best = jsonschema.exceptions.best_match([error], key=lambda one: (len(one.absolute_path), one.validator != "oneOf"))
    deepest = max([error, *_below(error)], key=lambda one: len(one.absolute_path)) if best else error
    return [f"{'.'.join(map(str, deepest.absolute_path))}: {deepest.message[:300]}"]


def _below(error: jsonschema.ValidationError) -> list[jsonschema.ValidationError]:
    return [one for child in error.context for one in [child, *_below(child)]]


@cache
def _validator(file: str, definition: str) -> jsonschema.Draft4Validator:
    closed = _closed(json.loads((SCHEMAS / file).read_text(encoding="utf-8")))
    common = json.loads((SCHEMAS / "common/definitions.json").read_text(encoding="utf-8"))
    name = "urn:rendered"
    registry: Registry[Any] = Registry().with_resources(
        [
            (name, Resource.from_contents(closed, default_specification=DRAFT4)),
            (_HOST + "common/definitions.json", Resource.from_contents(common, default_specification=DRAFT4)),
        ]
    )
    return jsonschema.Draft4Validator({"$ref": f"{name}#/resourceDefinitions/{definition}"}, registry=registry)


def _closed(node: Any) -> Any:
    """The same schema, refusing keys it does not list, at every depth."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    # "id" is a keyword of draft 4 and would move the base that "$ref" counts from.
    made = {key: _closed(value) for key, value in node.items() if not (key == "id" and isinstance(value, str))}
    if isinstance(made.get("pattern"), str):
        # ECMA takes a bare "-" after \w for itself, Python for a range.
        made["pattern"] = made["pattern"].replace(r"\w-.", r"\w\-.")
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made
