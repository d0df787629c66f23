"""Requests about resources: put, read, changed, deleted, listed, and acted on."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

from ndctl.sim.arm import (
    ids,
    images,
    instance_view,
    instances,
    interconnect,
    lro,
    machines,
    network,
    quota,
    scale_sets,
    subnet_use,
    virtual_networks,
)
from ndctl.sim.arm.actions import ACTIONS, MANY, MachineActions
from ndctl.sim.arm.catalogue import TYPES, canonical_type
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.http import Answer, Request, need_version, no_such_path, page
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.region import Body, Kind, Region

_CONSOLE_S = 7200
_MACHINE_TYPES = ("Microsoft.Compute/virtualMachines", instances.MACHINES)
_KINDS: tuple[type[Kind], ...] = (
    *network.KINDS,
    *virtual_networks.KINDS,
    *interconnect.KINDS,
    *machines.KINDS,
    *images.KINDS,
    scale_sets.ScaleSet,
)


class ResourceRoutes:
    def __init__(self, region: Region, secret: bytes) -> None:
        self._region = region
        region.kinds.update({kind.type.lower(): kind() for kind in _KINDS})
        region.work.handle("put", region.finish_put)
        region.work.handle("delete", region.finish_delete)
        region.work.handle("node-availability", self._finish_availability)
        self._actions = MachineActions(region, secret)
        self._endpoint = region.settings.endpoint

    def close(self) -> None:
        self._actions.close()

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

    def item(self, request: Request, rid: ResourceId) -> Answer:
        need_version(request, rid.type)
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
            if self._region.kind(rid.type).immediate:
                self._region.work.end_now(operation)
                return Answer(201 if new else 200, self._region.view(rid, self._region.need(rid)))
            head = lro.headers(self._region, request, operation, namespace=namespace)
            return Answer(201 if new else 200, self._region.view(rid, record), head)
        if request.method == "PATCH":
            return self._patch(request, rid)
        if request.method == "DELETE":
            if self._region.find(rid) is None:
                return Answer(204)
            operation = self._region.begin_delete(rid)
            if self._region.kind(rid.type).immediate:
                self._region.work.end_now(operation)
                return Answer(200)
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

    def collection_or_action(self, request: Request, subscription: str, group: str) -> Answer:
        """An odd number of segments: a list below a resource, or something done to it."""
        parts, last = request.parts, request.lower[-1]
        if len(parts) == 7:
            self._region.group(subscription, group)
            kind = canonical_type(f"{parts[5]}/{parts[6]}")
            return self.listed(request, kind, subscription, ids.group_key(subscription, group))
        owner = ids.make_id(subscription, group, parts[5], parts[6:-1:2], parts[7:-1:2])
        below = canonical_type(f"{owner.type}/{parts[-1]}")
        need_version(request, below if below.lower() in TYPES else owner.type)
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
        if below == virtual_networks.Subnet.type:
            return page(request, self._endpoint, record["body"]["properties"]["subnets"])
        if below == "Microsoft.Network/virtualNetworks/usages":
            return page(request, self._endpoint, subnet_use.usages(self._region, owner))
        if last == "instanceview" and owner.type == scale_sets.ScaleSet.type:
            return Answer(200, instance_view.summary(self._region, owner, record))
        if last == "instanceview" and owner.type == machines.Machine.type:
            return Answer(200, machines.machine_view(owner, record))
        raise no_such_path(request)

    def listed(self, request: Request, kind: str, subscription: str, group: str) -> Answer:
        need_version(request, kind)
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
        if owner.type == scale_sets.ScaleSet.type and action in MANY:
            operation = self._actions.begin_many(owner, MANY[action], request.object())
            return Answer(202, None, lro.headers(self._region, request, operation, namespace="Microsoft.Compute"))
        if owner.type in _MACHINE_TYPES and action == "retrievebootdiagnosticsdata":
            return Answer(200, self._boot_diagnostics(owner))
        if owner.type == interconnect.InterconnectGroup.type and action == "nodeavailability":
            operation = self._region.work.begin("node-availability", str(owner))
            head = lro.headers(self._region, request, operation, namespace="Microsoft.Network", asynchronous=False)
            return Answer(202, None, head)
        raise no_such_path(request)

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


def _merged(old: Any, patch: Any) -> Any:
    """JSON merge: objects key by key, everything else replaced."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    return {**old, **{key: _merged(old.get(key), value) for key, value in patch.items()}}
