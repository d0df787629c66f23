"""Which part of the control plane answers which path."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

from ndctl.sim.arm import deployments as deployed
from ndctl.sim.arm import ids, instance_view, instances, interconnect, lro, machines, network, offers, quota, scale_sets
from ndctl.sim.arm.actions import ACTIONS, MachineActions
from ndctl.sim.arm.catalogue import TYPES, canonical_type
from ndctl.sim.arm.deployments import Deployments
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.groups import Groups
from ndctl.sim.arm.http import Answer, Request, page
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.region import Body, Kind, Region

_CONSOLE_S = 7200
_MACHINE_TYPES = ("Microsoft.Compute/virtualMachines", instances.MACHINES)
_KINDS: tuple[type[Kind], ...] = (
    *network.KINDS, *interconnect.KINDS, *machines.KINDS, scale_sets.ScaleSet
)  # fmt: skip


class Routes:
    """`serve` answers any request behind sign-in; ArmError is its other answer."""

    def __init__(self, region: Region, secret: bytes) -> None:
        self._region = region
        region.kinds.update({kind.type.lower(): kind() for kind in _KINDS})
        region.work.handle("put", region.finish_put)
        region.work.handle("delete", region.finish_delete)
        region.work.handle("node-availability", self._finish_availability)
        self._deployments = Deployments(region)
        self._groups = Groups(region)
        self._actions = MachineActions(region, secret)
        self._endpoint = region.settings.endpoint

    def close(self) -> None:
        self._actions.close()

    def serve(self, request: Request) -> Answer:
        low = request.lower
        if low == ("subscriptions",):
            self._need_version(request, "Microsoft.Resources/subscriptions")
            listed = [self._groups.subscription(one) for one in self._region.settings.subscriptions]
            return page(request, self._endpoint, listed)
        if len(low) < 2 or low[0] != "subscriptions":
            raise _no_such_path(request)
        if low[1] not in self._region.settings.subscriptions:
            raise ArmError(404, "SubscriptionNotFound", f"The subscription '{request.parts[1]}' could not be found.")
        if "operations" in low[-2:] or "operationresults" in low[-2:] or "operationstatuses" in low[-2:]:
            answer = self._operation(request)
            if answer is not None:
                return answer
        if low[-3:] == ("microsoft.resources", "tags", "default"):
            self._need_version(request, "Microsoft.Resources/tags")
            return self._groups.tags(request, "/" + "/".join(request.parts[:-4]))
        if len(low) > 2 and low[2] == "resourcegroups":
            return self._in_groups(request)
        return self._in_subscription(request)

    def console(self, request: Request) -> Answer:
        """The serial console's log behind a signed URL; no bearer token is looked at."""
        path, expires = request.path, request.query.get("se", "")
        if not expires.isdigit() or request.query.get("sig", "") != self._actions.sign(path, expires):
            return Answer(403, "AuthenticationFailed: the signature does not fit.")
        if int(expires) < time.time():
            return Answer(403, "AuthenticationFailed: the signature has expired.")
        machine = ids.parse_id(path.removeprefix("/bootdiagnostics").removesuffix("/serialconsole.log"))
        if machine is None:
            return Answer(404, "BlobNotFound")
        return Answer(200, self._actions.console(machine))

    # paths

    def _operation(self, request: Request) -> Answer | None:
        kind, operation_id = request.lower[-2:]
        if kind == "operationresults":
            return lro.result(self._region, request, operation_id)
        if kind == "operationstatuses":
            return lro.status(self._region, operation_id, running="Running")
        if kind == "operations" and "locations" in request.lower:
            return lro.status(self._region, operation_id)
        return None

    def _in_subscription(self, request: Request) -> Answer:
        low, subscription = request.lower, request.lower[1]
        rest = low[2:]
        if not rest:
            self._need_version(request, "Microsoft.Resources/subscriptions")
            return Answer(200, self._groups.subscription(subscription))
        if rest == ("locations",):
            return page(request, self._endpoint, offers.locations(subscription))
        if rest == ("resources",):
            self._need_version(request, "Microsoft.Resources/subscriptions/resourceGroups")
            return self._groups.resources(request, subscription)
        if rest[0] != "providers":
            raise _no_such_path(request)
        if len(rest) == 1:
            states = [offers.provider(subscription, one, self._registered(one)) for one in offers.NAMESPACES]
            return page(request, self._endpoint, states)
        if len(rest) == 2:
            return Answer(200, offers.provider(subscription, rest[1], self._registered(rest[1])))
        if rest[2:] == ("register",) and request.method == "POST":
            self._region.store.put("registered", rest[1], {"state": "Registered"})
            return Answer(200, offers.provider(subscription, rest[1], "Registered"))
        if rest[1:] == ("microsoft.compute", "skus"):
            self._need_version(request, "Microsoft.Compute/skus")
            return page(request, self._endpoint, offers.skus(subscription, request.query.get("$filter", "")))
        if rest[1:3] == ("microsoft.compute", "locations") and len(rest) > 4:
            return self._compute_location(request, subscription, rest[3], rest[4])
        if len(rest) == 3:
            return self._listed(request, canonical_type(f"{rest[1]}/{rest[2]}"), subscription, "")
        raise _no_such_path(request)

    def _compute_location(self, request: Request, subscription: str, location: str, what: str) -> Answer:
        if what == "usages":
            self._need_version(request, "Microsoft.Compute/locations/usages")
            return page(request, self._endpoint, quota.usages(self._region, subscription, location))
        if what == "publishers":
            self._need_version(request, "Microsoft.Compute/locations/publishers")
            return offers.images(request, subscription, location, request.parts[7:])
        raise _no_such_path(request)

    def _in_groups(self, request: Request) -> Answer:
        low, parts, subscription = request.lower, request.parts, request.lower[1]
        if len(low) == 3 or len(low) == 4:
            self._need_version(request, "Microsoft.Resources/subscriptions/resourceGroups")
        if len(low) == 3:
            return self._groups.listed(request, subscription)
        group = parts[3]
        if len(low) == 4:
            return self._groups.serve(request, subscription, group)
        if low[4:] == ("resources",):
            return self._groups.resources(request, subscription, group)
        if low[4] == "deployments" and low[6:7] == ("operations",):
            return self._deployment(request, subscription, group, parts[5], "operations", low[7:])
        if low[4] != "providers" or len(low) < 7:
            raise _no_such_path(request)
        if low[5:7] == ("microsoft.resources", "deployments"):
            if len(low) == 7:
                return self._deployment_list(request, subscription, group)
            return self._deployment(request, subscription, group, parts[7], low[8] if len(low) > 8 else "", low[9:])
        if len(low) % 2 == 0:
            return self._item(request, ids.make_id(subscription, group, parts[5], parts[6::2], parts[7::2]))
        return self._collection_or_action(request, subscription, group)

    # deployments

    def _deployment_list(self, request: Request, subscription: str, group: str) -> Answer:
        self._need_version(request, deployed.TYPE)
        self._region.group(subscription, group)
        prefix = f"{ids.group_key(subscription, group)}/"
        records = (one for _, one in self._region.store.scan("deployments", prefix))
        return page(request, self._endpoint, (deployed.shown(one) for one in records))

    def _deployment(
        self, request: Request, subscription: str, group: str, name: str, action: str, rest: tuple[str, ...]
    ) -> Answer:
        self._need_version(request, deployed.TYPE)
        self._region.group(subscription, group)
        key = f"{ids.group_key(subscription, group)}/{name}".lower()
        if request.method == "PUT" and not action:
            record, operation, new = self._deployments.begin(subscription, group, name, request.body())
            head = lro.deployment_headers(self._region, request, operation, record["id"])
            return Answer(201 if new else 200, deployed.shown(record), head)
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
            raise deployed.not_found(name)
        if request.method == "GET" and not action:
            return Answer(200, deployed.shown(found))
        if request.method == "GET" and action == "operations":
            listed = deployed.operations(found)
            if rest:
                return Answer(200, next(one for one in listed if one["operationId"].lower() == rest[0]))
            return page(request, self._endpoint, listed)
        if request.method == "DELETE" and not action:
            self._region.store.drop("deployments", key)
            return Answer(204)
        raise _no_such_path(request)

    # resources

    def _item(self, request: Request, rid: ResourceId) -> Answer:
        self._need_version(request, rid.type)
        if rid.type == instances.MACHINES:
            return self._instance(request, rid)
        namespace = rid.namespace
        if request.method == "GET":
            record = self._region.need(rid)
            return Answer(200, self._region.view(rid, record, request.query.get("$expand", "")))
        if request.method == "HEAD":
            return Answer(204 if self._region.find(rid) else 404)
        if request.method == "PUT":
            record, operation, new = self._put(rid, request.object())
            head = lro.headers(self._region, request, operation, namespace=namespace)
            return Answer(201 if new else 200, self._region.view(rid, record), head)
        if request.method == "PATCH":
            return self._patch(request, rid)
        if request.method == "DELETE":
            if self._region.find(rid) is None:
                return Answer(204)
            operation = self._region.begin_delete(rid)
            return Answer(202, None, lro.headers(self._region, request, operation, namespace=namespace))
        raise ArmError(405, "MethodNotAllowed", f"{rid.type} does not take {request.method}.")

    def _put(self, rid: ResourceId, body: Body) -> tuple[Body, Body, bool]:
        cores = self._region.kind(rid.type)
        self._region.group(rid.subscription, rid.group)
        self._region.check(rid, body)
        location = str(body.get("location", ""))
        quota.check_quota(self._region, rid.subscription, location, [cores.cores(self._region, rid, body)])
        return self._region.begin_put(rid, body)

    def _patch(self, request: Request, rid: ResourceId) -> Answer:
        record = self._region.need(rid)
        patch = request.object()
        if set(patch) <= {"tags"} and rid.namespace != "Microsoft.Compute":
            record["body"]["tags"] = record["sent"]["tags"] = patch.get("tags") or {}
            self._region.save(rid, record)
            return Answer(200, self._region.view(rid, record))
        merged = _merged(record["sent"], patch)
        if "tags" in patch:
            merged["tags"] = patch["tags"]
        changed, operation, _ = self._put(rid, merged)
        head = lro.headers(self._region, request, operation, namespace=rid.namespace)
        return Answer(200, self._region.view(rid, changed), head)

    def _instance(self, request: Request, machine: ResourceId) -> Answer:
        scale_set = machine.parent
        assert scale_set is not None
        if request.method == "DELETE":
            operation = self._actions.begin_delete(machine)
            return Answer(202, None, lro.headers(self._region, request, operation, namespace="Microsoft.Compute"))
        one = instances.find(self._region, scale_set, machine.names[-1])
        if request.method != "GET":
            raise ArmError(405, "MethodNotAllowed", f"{machine.type} does not take {request.method}.")
        expand = "instanceview" in request.query.get("$expand", "").lower()
        record = self._region.need(scale_set)
        return Answer(200, instances.view(self._region, scale_set, record, one, expand=expand))

    def _collection_or_action(self, request: Request, subscription: str, group: str) -> Answer:
        """An odd number of segments: a list below a resource, or something done to it."""
        parts, last = request.parts, request.lower[-1]
        if len(parts) == 7:
            self._region.group(subscription, group)
            kind = canonical_type(f"{parts[5]}/{parts[6]}")
            return self._listed(request, kind, subscription, ids.group_key(subscription, group))
        owner = ids.make_id(subscription, group, parts[5], parts[6:-1:2], parts[7:-1:2])
        below = canonical_type(f"{owner.type}/{parts[-1]}")
        self._need_version(request, below if below.lower() in TYPES else owner.type)
        if request.method == "POST":
            return self._act(request, owner, last)
        if request.method != "GET":
            raise ArmError(405, "MethodNotAllowed", f"{below} does not take {request.method}.")
        if owner.type == instances.MACHINES and owner.parent is not None:
            one = instances.find(self._region, owner.parent, owner.names[-1])
            if last == "instanceview":
                record = self._region.need(owner.parent)
                return Answer(200, instance_view.instance_view(self._region, owner.parent, record, one))
            if last == "networkinterfaces":
                return page(request, self._endpoint, instances.interfaces(self._region, owner.parent, owner.names[-1]))
        record = self._region.need(owner)
        if below == instances.MACHINES:
            expand = "instanceview" in request.query.get("$expand", "").lower()
            rows = [one for _, one in instances.of(self._region, owner)]
            found = [instances.view(self._region, owner, record, one, expand=expand) for one in rows]
            return page(request, self._endpoint, found)
        if below == "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces":
            return page(request, self._endpoint, instances.interfaces(self._region, owner))
        if below == interconnect.SUBGROUPS:
            return page(request, self._endpoint, interconnect.subgroups(self._region, owner))
        if below == network.Subnet.type:
            return page(request, self._endpoint, record["body"]["properties"]["subnets"])
        if last == "instanceview" and owner.type == scale_sets.ScaleSet.type:
            return Answer(200, instance_view.summary(self._region, owner, record))
        if last == "instanceview" and owner.type == machines.Machine.type:
            return Answer(200, machines.machine_view(owner, record))
        raise _no_such_path(request)

    def _listed(self, request: Request, kind: str, subscription: str, group: str) -> Answer:
        self._need_version(request, kind)
        found = [
            self._region.view(rid, record)
            for rid, record in self._region.of_type(kind, group)
            if rid.subscription.lower() == subscription
        ]
        return page(request, self._endpoint, found)

    def _act(self, request: Request, owner: ResourceId, action: str) -> Answer:
        self._region.need(owner.parent or owner) if owner.type == instances.MACHINES else self._region.need(owner)
        if owner.type in _MACHINE_TYPES and action in ACTIONS:
            operation = self._actions.begin(owner, ACTIONS[action], request.object())
            return Answer(202, None, lro.headers(self._region, request, operation, namespace="Microsoft.Compute"))
        if owner.type in _MACHINE_TYPES and action == "retrievebootdiagnosticsdata":
            return Answer(200, self._boot_diagnostics(owner))
        if owner.type == interconnect.InterconnectGroup.type and action == "nodeavailability":
            operation = self._region.work.begin("node-availability", str(owner))
            head = lro.headers(self._region, request, operation, namespace="Microsoft.Network", asynchronous=False)
            return Answer(202, None, head)
        raise _no_such_path(request)

    def _finish_availability(self, operation: Body) -> Body:
        group = ids.parse_id(operation["target"])
        assert group is not None
        return interconnect.node_availability(self._region, group)

    def _boot_diagnostics(self, machine: ResourceId) -> Body:
        holder = machine.parent or machine
        if machine.parent is not None:
            instances.find(self._region, machine.parent, machine.names[-1])
        if not instance_view.boot_diagnostics_on(self._region.need(holder)):
            raise ArmError(409, "OperationNotAllowed", f"Boot diagnostics is not enabled for VM '{machine.name}'.")
        path = f"/bootdiagnostics{machine}/serialconsole.log"
        expires = str(int(time.time()) + _CONSOLE_S)
        url = f"{self._endpoint}{quote(path)}?se={expires}&sig={self._actions.sign(path, expires)}"
        return {"serialConsoleLogBlobUri": url}

    def _registered(self, namespace: str) -> str:
        record: Any = self._region.store.peek("registered").get(namespace.lower())
        return str(record["state"]) if record else "Registered"

    def _need_version(self, request: Request, type_name: str) -> None:
        known = TYPES.get(type_name.lower())
        if known is None:
            namespace, _, kind = type_name.partition("/")
            raise ArmError(
                404,
                "InvalidResourceType",
                f"The resource type '{kind}' could not be found in the namespace '{namespace}' for api version "
                f"'{request.version}'.",
            )
        if request.version not in known.versions:
            raise ArmError(
                400,
                "InvalidApiVersionParameter"
                if type_name.startswith("Microsoft.Resources")
                else "NoRegisteredProviderFound",
                f"The api-version '{request.version}' is invalid for type '{known.name}'. The supported versions are "
                f"'{','.join(reversed(known.versions))}'.",
            )


def _no_such_path(request: Request) -> ArmError:
    return ArmError(
        404, "ResourceNotFound", f"The path '{request.path}' is not known to this region ({request.method})."
    )


def _merged(old: Any, patch: Any) -> Any:
    """JSON merge: objects key by key, everything else replaced."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    return {**old, **{key: _merged(old.get(key), value) for key, value in patch.items()}}
