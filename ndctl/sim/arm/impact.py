"""Microsoft.Impact: reports of unhealthy nodes, and the insights that follow them.

Forms: learn.microsoft.com, Report node health by using Guest Health Reporting (preview), read 2026-12.
"""

from __future__ import annotations

import uuid
from typing import Any

from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.http import Answer, Request, need_version, no_such_path, page
from ndctl.sim.arm.region import Region

NAMESPACE = "microsoft.impact"
_REQUIRED = ("startDateTime", "impactCategory", "impactDescription", "impactedResourceId")
_UNHEALTHY = "Customer reports unhealthy state - HPC"
_STEPS = (
    ("AcknowledgedUnhealthy", "Acknowledged", False, f"{_UNHEALTHY} Acknowledge"),
    ("UpdatingNodeHealthState", "Processing", False, f"{_UNHEALTHY} Unhealthy Pipeline Starts"),
    ("NodeRemovedFromService", "Resolved", True, f"{_UNHEALTHY} Unhealthy Pipeline Successful"),
)


def registered(region: Region) -> bool:
    """A subscription has to register the provider before its first report."""
    return region.store.get("registered", NAMESPACE) is not None


def serve(region: Region, request: Request, subscription: str, rest: tuple[str, ...]) -> Answer:
    """`rest`: the path behind .../providers/Microsoft.Impact/workloadImpacts, as it came."""
    if not registered(region):
        raise ArmError(
            409,
            "MissingSubscriptionRegistration",
            "The subscription is not registered to use namespace 'Microsoft.Impact'. See https://aka.ms/rps-not-found "
            "for how to register subscriptions.",
            target="Microsoft.Impact",
        )
    need_version(request, "Microsoft.Impact/workloadImpacts")
    if not rest and request.method == "GET":
        return page(request, region.settings.endpoint, [one for _, one in region.store.scan("impacts", subscription)])
    if len(rest) == 1 and request.method == "PUT":
        return _put(region, request, subscription, rest[0])
    key = f"{subscription}/{rest[0].lower()}" if rest else ""
    record = region.store.get("impacts", key)
    if record is None:
        raise ArmError(404, "NotFound", f"The workload impact '{rest[0] if rest else ''}' was not found.")
    if len(rest) == 1 and request.method == "GET":
        return Answer(200, record)
    if [one.lower() for one in rest[1:]] == ["insights"] and request.method == "GET":
        asked = region.store.get("impact-asked", key) or {"times": 0}
        region.store.put("impact-asked", key, {"times": asked["times"] + 1})
        return page(request, region.settings.endpoint, [_insight(record, at) for at in range(min(3, asked["times"]))])
    raise no_such_path(request)


def _put(region: Region, request: Request, subscription: str, name: str) -> Answer:
    told = request.object().get("properties") or {}
    missing = [one for one in _REQUIRED if not told.get(one)]
    more = told.get("additionalProperties") or {}
    category = str(told.get("impactCategory", ""))
    if category.startswith("Resource.Hpc.") and not str(more.get("PhysicalHostName", "")).isalnum():
        missing.append("additionalProperties.PhysicalHostName")
    if missing:
        raise ArmError(400, "BadRequest", f"The request is invalid: {', '.join(missing)} is required.")
    key = f"{subscription}/{name.lower()}"
    if region.store.get("impacts", key) is not None:
        raise ArmError(409, "Conflict", f"The workload impact '{name}' exists already.")
    record: dict[str, Any] = {
        "id": f"/subscriptions/{subscription}/providers/Microsoft.Impact/workloadImpacts/{name}",
        "name": name,
        "type": "microsoft.impact/workloadimpacts",
        "properties": {**told, "impactUniqueId": str(uuid.uuid4()), "provisioningState": "Succeeded"},
    }
    region.store.put("impacts", key, record)
    return Answer(200, record)


def _insight(report: dict[str, Any], at: int) -> dict[str, Any]:
    code, status, last, title = _STEPS[at]
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{report['id']}/{code}").hex[:16]
    told = report["properties"]
    return {
        "id": f"{report['id']}/insights/{name}",
        "name": name,
        "type": "microsoft.impact/workloadimpacts/insights",
        "properties": {
            "category": "MitigationAction",
            "status": status,
            "eventTime": f"{told['startDateTime'][:10]}T23:0{at}:00.65Z",
            "insightUniqueId": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
            "impact": {
                "impactedResourceId": told["impactedResourceId"],
                "startTime": told["startDateTime"],
                "endTime": "0001-01-01T00:00:00Z",
                "impactId": report["id"],
            },
            "additionalDetails": {"statusCode": code, "terminalInsight": last},
            "content": {"title": title, "description": f"<h2>{title}</h2>"},
            "provisioningState": "Succeeded",
        },
    }
