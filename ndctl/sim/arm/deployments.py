"""Deployments: validated, predicted, and worked through resource by resource in the order of their dependencies."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ndctl.sim.arm import ids
from ndctl.sim.arm.catalogue import location_name
from ndctl.sim.arm.deployment_shape import (
    TYPE,
    dependencies,
    deployment_failed,
    not_found,
    providers,
    seconds_since,
    shown_parameters,
)
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.functions import functions_for
from ndctl.sim.arm.planted import cluster_of, rack_of
from ndctl.sim.arm.quota import check_quota
from ndctl.sim.arm.region import Body, Region
from ndctl.sim.arm.store import Record
from ndctl.sim.arm.template import Wanted, wanted_resources
from ndctl.sim.arm.whatif import changes
from ndctl.sim.arm.work import Again, timestamp

ENDED = ("Succeeded", "Failed", "Canceled")


class Deployments:
    """Handlers of the operations "deployment", "what-if" and "validate"."""

    def __init__(self, region: Region) -> None:
        self._region = region
        region.work.handle("deployment", self._advance)
        region.work.handle("what-if", lambda operation: operation["answer"])
        region.work.handle("validate", lambda operation: operation["answer"])

    # what a request asks

    def wanted(self, subscription: str, group: str, name: str, body: Any) -> list[Wanted]:
        """The resources of a request's template, in order; ArmError when the request or its template is refused."""
        properties = body.get("properties") if isinstance(body, dict) else None
        if not isinstance(properties, dict):
            raise ArmError(400, "InvalidRequestContent", "The request content was invalid: 'properties' is missing.")
        if properties.get("mode", "") not in ("Incremental", "incremental"):
            if str(properties.get("mode", "")).lower() != "complete":
                raise ArmError(400, "InvalidDeployment", "The 'mode' property must be Incremental or Complete.")
            raise ArmError(400, "InvalidDeployment", "This region does not run deployments in Complete mode.")
        if "template" not in properties:
            raise ArmError(400, "InvalidRequestContent", "Either 'template' or 'templateLink' must be given.")
        location = self._region.group(subscription, group)["location"]
        settings = self._region.settings
        functions = functions_for(subscription, group, location, settings.tenant, name, settings.endpoint)
        parameters = properties.get("parameters")
        if isinstance(parameters, dict) and "$schema" in parameters:
            raise ArmError(
                400, "InvalidDeploymentParameterKey", "The deployment parameters use the reserved key '$schema'."
            )
        return wanted_resources(properties["template"], parameters, functions, subscription, group)

    def preflight(self, subscription: str, name: str, wanted: Sequence[Wanted]) -> None:
        """ArmError InvalidTemplateDeployment with every provider's objection inside."""
        self._region.authorization.check_template(wanted)
        errors: list[Body] = []
        for one in wanted:
            try:
                self._region.check(one.rid, one.body)
            except ArmError as error:
                errors.append({"target": str(one.rid), **error.error})
        if not errors:
            errors += self._quota(subscription, wanted)
        if errors:
            raise ArmError(
                400,
                "InvalidTemplateDeployment",
                f"The template deployment '{name}' is not valid according to the validation procedure. The tracking id "
                f"is '{uuid.uuid4()}'. See inner errors for details.",
                details=errors,
            )

    def begin(self, subscription: str, group: str, name: str, body: Any) -> tuple[Record, Record, bool]:
        """(deployment, operation, whether it is new)."""
        key = f"{ids.group_key(subscription, group)}/{name}".lower()
        before = self._region.store.get("deployments", key)
        if before is not None and before["properties"]["provisioningState"] not in ENDED:
            raise ArmError(
                409,
                "DeploymentActive",
                f"Unable to edit or replace deployment '{name}': previous deployment from "
                f"'{before['properties']['timestamp']}' is still active. Please see https://aka.ms/arm-deploy "
                "for usage details.",
            )
        wanted = self.wanted(subscription, group, name, body)
        self.preflight(subscription, name, wanted)
        group_record = self._region.group(subscription, group)
        template = json.dumps(body["properties"]["template"], sort_keys=True)
        record: Record = {
            "id": f"{ids.group_id(subscription, group_record['name'])}/providers/{TYPE}/{name}",
            "name": name,
            "type": TYPE,
            "group": ids.group_key(subscription, group),
            "properties": {
                "templateHash": str(int(hashlib.sha256(template.encode()).hexdigest()[:16], 16)),
                "parameters": shown_parameters(body["properties"]),
                "mode": "Incremental",
                "provisioningState": "Accepted",
                "timestamp": timestamp(),
                "duration": "PT0S",
                "correlationId": str(uuid.uuid4()),
                "providers": providers(wanted),
                "dependencies": dependencies(wanted),
            },
            "steps": [
                {
                    "id": hashlib.sha256(one.rid.key.encode()).hexdigest()[:16].upper(),
                    "rid": str(one.rid),
                    "body": one.body,
                    "needs": list(one.depends_on),
                    "state": "NotStarted",
                    "started": "",
                    "ended": "",
                    "new": True,
                    "error": None,
                    "operation": "",
                }
                for one in wanted
            ],
        }
        operation = self._region.work.begin("deployment", record["id"], steps=1, key=key)
        record["operation"] = operation["id"]
        self._region.store.put("deployments", key, record)
        return record, operation, before is None

    def begin_validate(self, subscription: str, group: str, name: str, body: Any) -> Record:
        wanted = self.wanted(subscription, group, name, body)
        self.preflight(subscription, name, wanted)
        deployment_id = f"{ids.group_id(subscription, group)}/providers/{TYPE}/{name}"
        answer = {
            "id": deployment_id,
            "name": name,
            "type": TYPE,
            "properties": {
                "mode": "Incremental",
                "provisioningState": "Succeeded",
                "timestamp": timestamp(),
                "duration": "PT0S",
                "correlationId": str(uuid.uuid4()),
                "parameters": shown_parameters(body["properties"]),
                "providers": providers(wanted),
                "dependencies": dependencies(wanted),
                "validatedResources": [{"id": str(one.rid)} for one in wanted],
            },
        }
        return self._region.work.begin("validate", deployment_id, steps=1, answer=answer)

    def begin_what_if(self, subscription: str, group: str, name: str, body: Any) -> Record:
        wanted = self.wanted(subscription, group, name, body)
        settings = body["properties"].get("whatIfSettings") or {}
        payloads = settings.get("resultFormat", "FullResourcePayloads") != "ResourceIdOnly"
        answer: Body
        try:
            self.preflight(subscription, name, wanted)
        except ArmError as error:
            answer = {"status": "Failed", "error": error.error}
        else:
            found = changes(self._region, wanted, ids.group_key(subscription, group), payloads=payloads)
            answer = {"status": "Succeeded", "properties": {"correlationId": str(uuid.uuid4()), "changes": found}}
        target = f"{ids.group_id(subscription, group)}/providers/{TYPE}/{name}/whatIf"
        return self._region.work.begin("what-if", target, steps=1, answer=answer)

    def cancel(self, key: str) -> None:
        record = self._region.store.get("deployments", key)
        if record is None:
            raise not_found(key.rpartition("/")[2])
        if record["properties"]["provisioningState"] in ENDED:
            raise ArmError(
                409,
                "DeploymentCannotBeCanceled",
                f"The deployment '{record['name']}' is in terminal state "
                f"'{record['properties']['provisioningState']}' and cannot be canceled.",
            )
        error = {"code": "DeploymentCanceled", "message": "The operation was canceled."}
        record["properties"] |= {"provisioningState": "Canceled", "error": error}
        for step in record["steps"]:
            if step["state"] in ("NotStarted", "Running"):
                step["state"] = "Canceled"
        self._region.store.put("deployments", key, record)
        self._region.work.cancel(record["operation"], error)

    # how it is worked through

    def _advance(self, operation: Record) -> None:
        now = self._region.store.peek("deployments").get(operation["key"])
        if now is not None and not self._may_move(now):
            raise Again
        record = self._region.store.get("deployments", operation["key"])
        if record is None:
            name = operation["key"].rpartition("/")[2]
            raise ArmError(404, "DeploymentNotFound", f"Deployment '{name}' could not be found.")
        record["properties"]["provisioningState"] = "Running"
        steps = {step["rid"].lower(): step for step in record["steps"]}
        for step in record["steps"]:
            if step["state"] == "Running":
                self._look(step)
            if step["state"] == "NotStarted":
                states = [steps[need]["state"] for need in step["needs"]]
                if all(state == "Succeeded" for state in states):
                    self._start(step)
                elif any(state in ("Failed", "Skipped") for state in states):
                    step["state"] = "Skipped"
        waiting = [step for step in record["steps"] if step["state"] in ("NotStarted", "Running")]
        failed = [step for step in record["steps"] if step["state"] == "Failed"]
        if waiting or self._never_ends(record):
            self._region.store.put("deployments", operation["key"], record)
            raise Again
        self._end(record, operation["key"], failed)

    def _may_move(self, record: Record) -> bool:
        """Whether a look at the deployment can change it: cheap, since every pulse asks it of every deployment."""
        states = {step["rid"].lower(): step["state"] for step in record["steps"]}
        for step in record["steps"]:
            if step["state"] == "Running":
                operation = self._region.store.peek("operations").get(step["operation"])
                if operation is None or operation["status"] != "InProgress":
                    return True
            elif step["state"] == "NotStarted":
                needs = [states[need] for need in step["needs"]]
                if any(one in ("Failed", "Skipped") for one in needs) or all(one == "Succeeded" for one in needs):
                    return True
        ended = all(one not in ("NotStarted", "Running") for one in states.values())
        return record["properties"]["provisioningState"] == "Accepted" or (ended and not self._never_ends(record))

    def _start(self, step: Record) -> None:
        rid = ids.parse_id(step["rid"])
        assert rid is not None
        step["started"] = timestamp()
        try:
            cores = self._region.kind(rid.type).cores(self._region, rid, step["body"])
            # Validation looked before others took theirs.
            check_quota(self._region, rid.subscription, location_name(str(step["body"].get("location", ""))), [cores])
            _, operation, step["new"] = self._region.begin_put(rid, step["body"])
        except ArmError as error:
            # The provider refused the request itself: its error stands directly in the operation.
            step |= {"state": "Failed", "ended": timestamp(), "status": error.status, "error": error.error}
        else:
            step |= {"state": "Running", "operation": operation["id"]}

    def _look(self, step: Record) -> None:
        operation = self._region.work.get(step["operation"])
        if operation is None or operation["status"] == "InProgress":
            return
        step["ended"] = operation.get("ended", timestamp())
        if operation["status"] == "Succeeded":
            step["state"] = "Succeeded"
            return
        error = {
            "code": "ResourceDeploymentFailure",
            "target": step["rid"],
            "message": "The resource write operation failed to complete successfully, because it reached terminal "
            "provisioning state 'Failed'.",
            "details": [operation["error"]],
        }
        step |= {"state": "Failed", "status": 409, "error": error}

    def _end(self, record: Record, key: str, failed: Sequence[Record]) -> None:
        properties = record["properties"]
        seconds = seconds_since(properties["timestamp"])
        properties["duration"] = f"PT{seconds:.3f}S"
        if failed:
            error = deployment_failed([step["error"] for step in failed])
            properties |= {"provisioningState": "Failed", "error": error.error}
            self._region.store.put("deployments", key, record)
            raise error
        properties |= {
            "provisioningState": "Succeeded",
            "outputResources": [{"id": step["rid"]} for step in record["steps"]],
        }
        self._region.store.put("deployments", key, record)

    def _never_ends(self, record: Record) -> bool:
        for step in record["steps"]:
            rack, cluster = rack_of(step["body"], step["rid"].rpartition("/")[2]), cluster_of(step["body"], "")
            compute = "/providers/microsoft.compute/" in step["rid"].lower()
            if compute and self._region.planted.rack_fault("lro-never-ends", rack, cluster):
                return True
        return False

    def _quota(self, subscription: str, wanted: Sequence[Wanted]) -> list[Body]:
        by_location: dict[str, list[Mapping[str, int]]] = {}
        for one in wanted:
            cores = self._region.kind(one.rid.type).cores(self._region, one.rid, one.body)
            if cores:
                by_location.setdefault(location_name(str(one.body.get("location", ""))), []).append(cores)
        errors = []
        for location, cores_of in by_location.items():
            try:
                check_quota(self._region, subscription, location, cores_of)
            except ArmError as error:
                errors.append(error.error)
        return errors
