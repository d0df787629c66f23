"""Requests about deployments."""

from __future__ import annotations

from ndctl.sim.arm import deployment_shape as shape
from ndctl.sim.arm import ids, lro
from ndctl.sim.arm.deployments import Deployments
from ndctl.sim.arm.http import Answer, Request, need_version, no_such_path, page
from ndctl.sim.arm.region import Region


class DeploymentRoutes:
    def __init__(self, region: Region) -> None:
        self._region = region
        self._deployments = Deployments(region)
        self._endpoint = region.settings.endpoint

    def listed(self, request: Request, subscription: str, group: str) -> Answer:
        need_version(request, shape.TYPE)
        self._region.group(subscription, group)
        prefix = f"{ids.group_key(subscription, group)}/"
        records = (one for _, one in self._region.store.scan("deployments", prefix))
        return page(request, self._endpoint, (shape.shown(one) for one in records))

    def serve(
        self, request: Request, subscription: str, group: str, name: str, action: str, rest: tuple[str, ...]
    ) -> Answer:
        need_version(request, shape.TYPE)
        self._region.group(subscription, group)
        key = f"{ids.group_key(subscription, group)}/{name}".lower()
        if request.method == "PUT" and not action:
            record, operation, new = self._deployments.begin(subscription, group, name, request.body())
            head = lro.deployment_headers(self._region, request, operation, record["id"])
            return Answer(201 if new else 200, shape.shown(record), head)
        if request.method == "POST" and action in ("validate", "whatif"):
            begin = self._deployments.begin_validate if action == "validate" else self._deployments.begin_what_if
            operation = begin(subscription, group, name, request.body())
            url = f"{self._endpoint}/subscriptions/{subscription}/operationresults/{operation['id']}"
            retry = str(self._region.settings.retry_after)
            return Answer(202, None, {"Location": f"{url}?api-version={request.version}", "Retry-After": retry})
        if request.method == "POST" and action == "cancel":
            self._deployments.cancel(key)
            return Answer(204)
        found = self._region.store.get("deployments", key)
        if request.method == "HEAD":
            return Answer(204 if found else 404)
        if found is None:
            raise shape.not_found(name)
        if request.method == "GET" and not action:
            return Answer(200, shape.shown(found))
        if request.method == "GET" and action == "operations":
            listed = shape.operations(found)
            if rest:
                return Answer(200, next(one for one in listed if one["operationId"].lower() == rest[0]))
            return page(request, self._endpoint, listed)
        if request.method == "DELETE" and not action:
            self._region.store.drop("deployments", key)
            return Answer(204)
        raise no_such_path(request)
