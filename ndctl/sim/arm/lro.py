"""How a long-running operation is told to the client: headers of the first answer, and the two URLs it polls."""

from __future__ import annotations

from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.http import Answer, Request
from ndctl.sim.arm.region import Body, Region
from ndctl.sim.arm.store import Record


def headers(region: Region, request: Request, operation: Record, *, namespace: str, asynchronous: bool = True) -> Body:
    """Azure-AsyncOperation and Location, or Location alone.

    Compute has one path for both and tells them apart by `monitor=true`, as its official examples show; others two.
    """
    base = f"{region.settings.endpoint}/subscriptions/{request.parts[1]}/providers/{namespace}/locations/region"
    tail = f"{operation['id']}?api-version={request.version}"
    compute = namespace.lower() == "microsoft.compute"
    location = f"{base}/operations/{tail}&monitor=true" if compute else f"{base}/operationResults/{tail}"
    found = {"Location": location, "Retry-After": str(region.settings.retry_after)}
    if asynchronous:
        found["Azure-AsyncOperation"] = f"{base}/operations/{tail}"
    return found


def deployment_headers(region: Region, request: Request, operation: Record, deployment_id: str) -> Body:
    url = f"{region.settings.endpoint}{deployment_id}/operationStatuses/{operation['id']}"
    return {
        "Azure-AsyncOperation": f"{url}?api-version={request.version}",
        "Retry-After": str(region.settings.retry_after),
    }


def status(region: Region, operation_id: str, *, running: str = "InProgress") -> Answer:
    """What Azure-AsyncOperation answers."""
    operation = _need(region, operation_id)
    state = running if operation["status"] == "InProgress" else operation["status"]
    body: Body = {"startTime": operation["started"], "status": state, "name": operation["id"]}
    if "ended" in operation:
        body["endTime"] = operation["ended"]
    if operation["status"] == "InProgress":
        return Answer(200, body, {"Retry-After": str(region.settings.retry_after)})
    if operation.get("error"):
        body["error"] = operation["error"]
    elif operation["kind"] == "run-command":
        body["properties"] = {"output": operation["result"]}
    return Answer(200, body)


def result(region: Region, request: Request, operation_id: str) -> Answer:
    """What Location answers: 202 while it goes on, then the result."""
    operation = _need(region, operation_id)
    if operation["status"] == "InProgress":
        monitor = "&monitor=true" if request.query.get("monitor") else ""
        url = f"{region.settings.endpoint}{request.path}?api-version={request.version}{monitor}"
        return Answer(202, None, {"Location": url, "Retry-After": str(region.settings.retry_after)})
    if operation.get("error"):
        return Answer(409, {"error": operation["error"]})
    found = operation.get("result")
    if operation["kind"] in ("delete", "instance-delete", "group-delete"):
        return Answer(200 if operation["kind"] == "group-delete" else 204)
    return Answer(200, found)


def _need(region: Region, operation_id: str) -> Record:
    operation = region.work.get(operation_id)
    if operation is None:
        raise ArmError(404, "OperationNotFound", f"The operation '{operation_id}' was not found.")
    return operation
