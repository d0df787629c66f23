"""Microsoft.Impact in its REST shape: refused until registered, and until a report says what it must."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from tests.sim.arm_clients import SUBSCRIPTION, Region, region

__all__ = ["region"]
PATH = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Impact/workloadImpacts"
TOLD = {
    "startDateTime": "2026-12-02T03:20:11Z",
    "impactCategory": "Resource.Hpc.Unhealthy.NvLink",
    "impactDescription": "NVLink 8 down",
    "impactedResourceId": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/v",
    "additionalProperties": {"PhysicalHostName": "GAZ0123"},
}


def call(region: Region, method: str, path: str, body: Any = None, version: str = "2025-01-01-preview") -> Any:
    """(status, JSON), by hand: the SDK's own pipeline would register a missing provider by itself."""
    token = region.credential.get_token(f"{region.endpoint}/.default").token
    request = urllib.request.Request(
        f"{region.endpoint}{PATH}{path}?api-version={version}",
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(
            request, timeout=20, context=ssl.create_default_context(cafile=region.ca)
        ) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_registered_put_and_followed(region: Region) -> None:
    status, refused = call(region, "PUT", "/one", {"properties": TOLD})
    assert (status, refused["error"]["code"]) == (409, "MissingSubscriptionRegistration")
    region.resources.providers.register("Microsoft.Impact")
    for lacking in ("impactCategory", "impactedResourceId", "additionalProperties"):
        told = {key: value for key, value in TOLD.items() if key != lacking}
        assert call(region, "PUT", "/one", {"properties": told})[0] == 400
    assert call(region, "PUT", "/one", {"properties": TOLD}, version="2020-01-01")[0] == 400
    status, made = call(region, "PUT", "/one", {"properties": TOLD})
    assert status == 200 and made["type"] == "microsoft.impact/workloadimpacts"
    assert call(region, "PUT", "/one", {"properties": TOLD})[0] == 409
    assert [one["name"] for one in call(region, "GET", "")[1]["value"]] == ["one"]
    assert call(region, "GET", "/two/insights")[0] == 404
    seen = [call(region, "GET", "/one/insights")[1]["value"] for _ in range(4)]
    assert [len(one) for one in seen] == [0, 1, 2, 3]
    details = [one["properties"]["additionalDetails"] for one in seen[-1]]
    assert [one["terminalInsight"] for one in details] == [False, False, True]
    assert details[-1]["statusCode"] == "NodeRemovedFromService"
