"""Which part of the control plane answers which path."""

from __future__ import annotations

from typing import Any

from ndctl.sim.arm import ids, impact, lro, offers, quota
from ndctl.sim.arm.catalogue import NAMESPACES, canonical_type
from ndctl.sim.arm.deployment_routes import DeploymentRoutes
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.groups import Groups
from ndctl.sim.arm.http import Answer, Request, need_version, no_such_path, page
from ndctl.sim.arm.region import Region
from ndctl.sim.arm.resource_routes import ResourceRoutes


class Routes:
    """`serve` answers any request behind sign-in; ArmError is its other answer."""

    def __init__(self, region: Region, secret: bytes) -> None:
        self._region = region
        self._deployments = DeploymentRoutes(region)
        self._resources = ResourceRoutes(region, secret)
        self._groups = Groups(region)
        self._endpoint = region.settings.endpoint

    def close(self) -> None:
        self._resources.close()

    def serve(self, request: Request) -> Answer:
        low = request.lower
        if low == ("subscriptions",):
            need_version(request, "Microsoft.Resources/subscriptions")
            listed = [self._groups.subscription(one) for one in self._region.settings.subscriptions]
            return page(request, self._endpoint, listed)
        if len(low) < 2 or low[0] != "subscriptions":
            raise no_such_path(request)
        if low[1] not in self._region.settings.subscriptions:
            raise ArmError(404, "SubscriptionNotFound", f"The subscription '{request.parts[1]}' could not be found.")
        if "operations" in low[-2:] or "operationresults" in low[-2:] or "operationstatuses" in low[-2:]:
            answer = self._operation(request)
            if answer is not None:
                return answer
        if low[-2:] == ("microsoft.authorization", "permissions"):
            return self._permissions(request)
        if low[-3:] == ("microsoft.resources", "tags", "default"):
            need_version(request, "Microsoft.Resources/tags")
            return self._groups.tags(request, "/" + "/".join(request.parts[:-4]))
        if len(low) > 2 and low[2] == "resourcegroups":
            return self._in_groups(request)
        return self._in_subscription(request)

    def console(self, request: Request) -> Answer:
        return self._resources.console(request)

    def _operation(self, request: Request) -> Answer | None:
        kind, operation_id = request.lower[-2:]
        if kind == "operationresults" or (kind == "operations" and request.query.get("monitor", "").lower() == "true"):
            return lro.result(self._region, request, operation_id)
        if kind == "operationstatuses":
            return lro.status(self._region, operation_id, running="Running")
        if kind == "operations" and "locations" in request.lower:
            return lro.status(self._region, operation_id)
        return None

    def _permissions(self, request: Request) -> Answer:
        """What the caller may do at a scope: one entry a role, as the official example GetPermissions.json has it."""
        need_version(request, "Microsoft.Authorization/permissions")
        if len(request.parts) > 4 and request.lower[2] == "resourcegroups":
            self._region.group(request.lower[1], request.parts[3])
        return page(request, self._endpoint, self._region.authorization.permissions())

    def _in_subscription(self, request: Request) -> Answer:
        low, subscription = request.lower, request.lower[1]
        rest = low[2:]
        if not rest:
            need_version(request, "Microsoft.Resources/subscriptions")
            return Answer(200, self._groups.subscription(subscription))
        if rest == ("locations",):
            return page(request, self._endpoint, offers.locations(subscription))
        if rest == ("resources",):
            need_version(request, "Microsoft.Resources/subscriptions/resourceGroups")
            return self._groups.resources(request, subscription)
        if rest[0] != "providers":
            raise no_such_path(request)
        if len(rest) == 1:
            states = [offers.provider(subscription, one, self._registered(one)) for one in NAMESPACES]
            return page(request, self._endpoint, states)
        if len(rest) == 2:
            return Answer(200, offers.provider(subscription, rest[1], self._registered(rest[1])))
        if rest[2:] == ("register",) and request.method == "POST":
            self._region.store.put("registered", rest[1], {"state": "Registered"})
            return Answer(200, offers.provider(subscription, rest[1], "Registered"))
        if rest[1:3] == (impact.NAMESPACE, "workloadimpacts"):
            return impact.serve(self._region, request, subscription, request.parts[5:])
        if rest[1:] == ("microsoft.compute", "skus"):
            need_version(request, "Microsoft.Compute/skus")
            filter_text = request.query.get("$filter", "")
            return page(request, self._endpoint, offers.skus(subscription, filter_text, self._region.refusals))
        if rest[1:3] == ("microsoft.compute", "locations") and len(rest) > 4:
            return self._compute_location(request, subscription, rest[3], rest[4])
        if len(rest) == 3:
            return self._resources.listed(request, canonical_type(f"{rest[1]}/{rest[2]}"), subscription, "")
        raise no_such_path(request)

    def _compute_location(self, request: Request, subscription: str, location: str, what: str) -> Answer:
        if what == "usages":
            need_version(request, "Microsoft.Compute/locations/usages")
            return page(request, self._endpoint, quota.usages(self._region, subscription, location))
        if what == "publishers":
            need_version(request, "Microsoft.Compute/locations/publishers")
            return offers.images(request, subscription, location, request.parts[7:])
        raise no_such_path(request)

    def _in_groups(self, request: Request) -> Answer:
        low, parts, subscription = request.lower, request.parts, request.lower[1]
        if len(low) == 3 or len(low) == 4:
            need_version(request, "Microsoft.Resources/subscriptions/resourceGroups")
        if len(low) == 3:
            return self._groups.listed(request, subscription)
        group = parts[3]
        if len(low) == 4:
            return self._groups.serve(request, subscription, group)
        if low[4:] == ("resources",):
            return self._groups.resources(request, subscription, group)
        if low[4] == "deployments" and low[6:7] == ("operations",):
            return self._deployments.serve(request, subscription, group, parts[5], "operations", low[7:])
        if low[4] != "providers" or len(low) < 7:
            raise no_such_path(request)
        if low[5:7] == ("microsoft.resources", "deployments"):
            if len(low) == 7:
                return self._deployments.listed(request, subscription, group)
            return self._deployments.serve(
                request, subscription, group, parts[7], low[8] if len(low) > 8 else "", low[9:]
            )
        if len(low) % 2 == 0:
            return self._resources.item(request, ids.make_id(subscription, group, parts[5], parts[6::2], parts[7::2]))
        return self._resources.collection_or_action(request, subscription, group)

    def _registered(self, namespace: str) -> str:
        if self._region.refusals.unregistered(namespace):
            return "NotRegistered"
        if namespace.lower() == impact.NAMESPACE and not impact.registered(self._region):
            return "NotRegistered"  # nobody has it from the start
        record: Any = self._region.store.peek("registered").get(namespace.lower())
        return str(record["state"]) if record else "Registered"
