"""Deployments as ARM shows them: their operations, parameters, providers, and the error of a failed one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ndctl.sim.arm import ids
from ndctl.sim.arm.catalogue import location_name
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.region import Body
from ndctl.sim.arm.store import Record
from ndctl.sim.arm.template import Wanted
from ndctl.sim.arm.work import timestamp

TYPE = "Microsoft.Resources/deployments"


def not_found(name: str) -> ArmError:
    return ArmError(404, "DeploymentNotFound", f"Deployment '{name}' could not be found.")


def deployment_failed(errors: Sequence[Body]) -> ArmError:
    return ArmError(
        409,
        "DeploymentFailed",
        "At least one resource deployment operation failed. Please list deployment operations for details. Please see "
        "https://aka.ms/arm-deployment-operations for usage details.",
        details=errors,
    )


def shown(record: Record) -> Body:
    """The deployment as ARM shows it."""
    return {key: record[key] for key in ("id", "name", "type", "properties")}


def operations(record: Record) -> list[Body]:
    """The deployment's operations, one per resource begun, newest first as ARM lists them."""
    found = []
    for step in reversed(record["steps"]):
        if step["state"] in ("NotStarted", "Skipped", "Canceled"):
            continue
        rid = ids.parse_id(step["rid"])
        assert rid is not None
        failed = step["state"] == "Failed"
        status = _status_code(step)
        properties: Body = {
            "provisioningOperation": "Create",
            "provisioningState": step["state"],
            "timestamp": step["ended"] or step["started"],
            "duration": "PT1S",
            "trackingId": str(uuid.uuid5(uuid.NAMESPACE_URL, step["rid"])),
            "statusCode": status,
            "targetResource": {"id": step["rid"], "resourceType": rid.type, "resourceName": rid.name},
        }
        if failed:
            properties["statusMessage"] = {"status": "Failed", "error": step["error"]}
        found.append(
            {"id": f"{record['id']}/operations/{step['id']}", "operationId": step["id"], "properties": properties}
        )
    return found


def _status_code(step: Record) -> str:
    if step["state"] == "Failed":
        return {400: "BadRequest", 403: "Forbidden", 404: "NotFound"}.get(int(step.get("status", 409)), "Conflict")
    return "Created" if step["new"] else "OK"


def shown_parameters(properties: Mapping[str, Any]) -> Body:
    """Parameter values as ARM gives them back: with their types, and without what is secure."""
    declared = properties["template"].get("parameters") or {}
    shown_ones: Body = {}
    for name, told in declared.items():
        kind = str(told.get("type", "string"))
        given = (properties.get("parameters") or {}).get(name)
        entry: Body = {"type": kind[:1].upper() + kind[1:]}
        if not kind.lower().startswith("secure"):
            entry["value"] = (
                given["value"] if isinstance(given, Mapping) and "value" in given else told.get("defaultValue")
            )
        shown_ones[name] = entry
    return shown_ones


def providers(wanted: Sequence[Wanted]) -> list[Body]:
    by_namespace: dict[str, dict[str, list[str]]] = {}
    for one in wanted:
        kind = "/".join(one.rid.types)
        location = location_name(str(one.body.get("location", "")))
        by_namespace.setdefault(one.rid.namespace, {})[kind] = [location]
    return [
        {
            "namespace": namespace,
            "resourceTypes": [{"resourceType": kind, "locations": places} for kind, places in kinds.items()],
        }
        for namespace, kinds in by_namespace.items()
    ]


def dependencies(wanted: Sequence[Wanted]) -> list[Body]:
    by_key = {one.rid.key: one.rid for one in wanted}

    def named(rid: ids.ResourceId) -> Body:
        return {"id": str(rid), "resourceType": rid.type, "resourceName": rid.name}

    return [
        {"dependsOn": [named(by_key[need]) for need in one.depends_on], **named(one.rid)}
        for one in wanted
        if one.depends_on
    ]


def seconds_since(since: str) -> float:
    return max(0.0, (datetime.fromisoformat(timestamp()) - datetime.fromisoformat(since)).total_seconds())
