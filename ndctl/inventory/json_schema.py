"""The inventory's JSON Schema, for editors: what the loader accepts, as far as a schema can say it."""

from __future__ import annotations

from typing import Any

from ndctl.inventory.schema import Inventory

SCHEMA_ID = "urn:ndctl:schema:inventory:1"
_TEXT = {"type": ["string", "number", "boolean"]}


def json_schema() -> dict[str, Any]:
    """Draft 2020-12. Where the loader takes an unquoted number as text, the schema does too."""
    schema = Inventory.model_json_schema()
    properties = schema["properties"]
    properties["zone"]["anyOf"].append({"type": "integer", "minimum": 1, "maximum": 9})
    for name in ("tags", "nccl_env"):
        properties[name]["additionalProperties"] = _TEXT
    nodes = schema["$defs"]["StaticRack"]["properties"]["nodes"]
    listed = {key: nodes.pop(key) for key in ("type", "items")}
    nodes["anyOf"] = [{"type": "string"}, listed]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **schema,
        "title": "ndctl inventory",
    }
