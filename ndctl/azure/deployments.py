"""One ARM deployment: sent, watched operation by operation, and its innermost error when it fails."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.mgmt.resource.deployments.models import Deployment, DeploymentProperties

from ndctl.azure.clients import AzureClients
from ndctl.azure.faults import AzureFault, FaultError, fault_from_body, fault_from_exception
from ndctl.azure.pacing_policy import BY_AZURE
from ndctl.azure.whatif import ArmDeployment, from_template, split_id
from ndctl.checks.azure_errors import FaultClass

_ENDED = ("succeeded", "failed", "canceled")
_TICK_S = 0.1  # how soon an interruption is noticed
_LOOK_S = 0.5  # the operations are listed no more often than this


@dataclass(frozen=True, slots=True)
class Operation:
    """One resource of a running deployment. state: Running, Succeeded, Failed, ..."""

    type: str
    name: str
    state: str
    error: Any = None

    @property
    def failed(self) -> bool:
        return self.state.casefold() == "failed"


@dataclass(frozen=True, slots=True)
class DeploymentEnd:
    """How a deployment ended. Not `succeeded` without a `fault` means: still running in Azure, no longer watched."""

    name: str
    succeeded: bool
    seconds: float
    fault: AzureFault | None = None
    failed: tuple[Operation, ...] = ()
    still_running: str = ""  # why it is no longer watched: "interrupted", "deadline"


def deploy(
    clients: AzureClients,
    deployment: ArmDeployment,
    *,
    deadline_s: float,
    stop: threading.Event,
    on_progress: Callable[[Sequence[Operation]], None],
    clock: Callable[[], float] = monotonic,
) -> DeploymentEnd:
    """Create or update, and watch until it ends, the deadline passes or `stop` is set. Never raises AzureError.

    When a deployment of the same name is still running (ndctl was interrupted before), that one is waited for and the
    deployment is then sent again, which changes nothing that is already right.
    """
    start = clock()

    def ended(succeeded: bool, **more: Any) -> DeploymentEnd:
        return DeploymentEnd(deployment.name, succeeded, clock() - start, **more)

    parameters: Any = deployment.parameters  # plain JSON is what the model sends
    request = Deployment(
        properties=DeploymentProperties(mode="Incremental", template=deployment.template, parameters=parameters)
    )
    try:
        poller = _begin(clients, deployment.name, request, stop, start + deadline_s, clock, put_by_azure(deployment))
        if poller is None:
            return ended(False, still_running="interrupted" if stop.is_set() else "deadline")
        next_look = clock()
        try:
            while not poller.done():
                if stop.is_set():
                    return ended(False, still_running="interrupted")
                if clock() - start > deadline_s:
                    return ended(False, still_running="deadline")
                if clock() >= next_look:
                    _look(clients, deployment.name, on_progress)
                    next_look = clock() + max(_LOOK_S, clients.cloud.poll_s)
                poller.wait(_TICK_S)
            poller.result()
        except AzureError as error:
            if not _lost_sight(error):
                raise
            # The looks failed and not the deployment: Azure goes on with it, so its own record is asked.
            still = _until_ended(clients, deployment.name, stop, start + deadline_s, clock)
            if still:
                return ended(False, still_running=still)
        _look(clients, deployment.name, on_progress)
        return ended(True)
    except AzureError as error:
        fault = fault_from_exception(error)
        failed = _failed(clients, deployment.name)
        return ended(False, fault=_innermost(fault, failed), failed=failed)


def operations(clients: AzureClients, deployment_name: str) -> tuple[Operation, ...]:
    """The deployment's operations by resource, in Azure's order. Raises AzureError."""
    found = []
    for one in clients.deployments.deployment_operations.list(clients.resource_group, deployment_name):
        told = one.properties
        if told is None or told.target_resource is None or not told.target_resource.id:
            continue
        kind, name = split_id(told.target_resource.id)
        found.append(Operation(kind, name, told.provisioning_state or "", _status_message(told.status_message)))
    return tuple(found)


def unfinished(clients: AzureClients, prefix: str) -> tuple[tuple[str, str], ...]:
    """(name, since when) of the group's deployments that Azure still runs, of names that begin with `prefix`.

    Raises AzureError; without the group there is none.
    """
    found = []
    try:
        for one in clients.deployments.deployments.list_by_resource_group(clients.resource_group):
            told = one.properties
            state = told.provisioning_state if told else ""
            if (one.name or "").startswith(prefix) and str(getattr(state, "value", state)).casefold() not in _ENDED:
                since = told.timestamp.strftime("%Y-%m-%dT%H:%M:%SZ") if told and told.timestamp else ""
                found.append((one.name or "", since))
    except ResourceNotFoundError as error:
        if fault_from_exception(error).innermost_code.casefold() != "resourcegroupnotfound":
            raise
    return tuple(sorted(found))


def put_by_azure(deployment: ArmDeployment) -> dict[str, int]:
    """Type -> how many resources ARM will PUT for this deployment: they count against the providers' limits."""
    return dict(Counter(one.type for one in from_template(deployment, "")))


def _begin(
    clients: AzureClients,
    name: str,
    request: Deployment,
    stop: threading.Event,
    deadline: float,
    clock: Callable[[], float],
    by_azure: Mapping[str, int],
) -> Any:
    while True:
        try:
            return clients.deployments.deployments.begin_create_or_update(
                clients.resource_group, name, request, **{BY_AZURE: by_azure}
            )
        except AzureError as error:
            if fault_from_exception(error).innermost_code != "DeploymentActive":
                raise
        while not stop.wait(clients.cloud.poll_s) and clock() < deadline:
            running = clients.deployments.deployments.get(clients.resource_group, name)
            state = running.properties.provisioning_state if running.properties else ""
            if str(getattr(state, "value", state)).casefold() in _ENDED:
                break
        else:
            return None


def _lost_sight(error: AzureError) -> bool:
    """Whether an error says nothing of the deployment: no answer, or one of a server in trouble or too busy."""
    if isinstance(error, HttpResponseError):
        return error.status_code is not None and (error.status_code >= 500 or error.status_code in (408, 429))
    return isinstance(error, (ServiceRequestError, ServiceResponseError))


def _until_ended(
    clients: AzureClients, name: str, stop: threading.Event, deadline: float, clock: Callable[[], float]
) -> str:
    """ "" when it has succeeded, else "interrupted" or "deadline". Raises the deployment's own error."""
    while clock() < deadline:
        try:
            told = clients.deployments.deployments.get(clients.resource_group, name).properties
        except AzureError as error:
            if not _lost_sight(error):
                raise
            told = None
        state = str(getattr(told.provisioning_state, "value", told.provisioning_state)).casefold() if told else ""
        if state == "succeeded":
            return ""
        if told is not None and state in _ENDED:
            body = told.error.as_dict() if told.error else {"code": "DeploymentFailed", "message": state}
            raise FaultError(fault_from_body(body))
        if stop.wait(clients.cloud.poll_s):
            return "interrupted"
    return "deadline"


def _look(clients: AzureClients, name: str, on_progress: Callable[[Sequence[Operation]], None]) -> None:
    """Progress is a courtesy: when it cannot be read, the deployment is watched all the same."""
    try:
        seen = operations(clients, name)
    except AzureError:
        return
    on_progress(seen)


def _failed(clients: AzureClients, name: str) -> tuple[Operation, ...]:
    try:
        return tuple(one for one in operations(clients, name) if one.failed)
    except AzureError:  # e.g. validation refused it: there is no such deployment
        return ()


def _innermost(fault: AzureFault, failed: Sequence[Operation]) -> AzureFault:
    """The deployment's own error often only says that an operation failed; the operation says why."""
    if fault.fault_class in (FaultClass.AUTH, FaultClass.PERMISSION):
        return fault
    for one in failed:
        if one.error:
            return fault_from_body({"code": fault.code, "message": fault.message, "details": [one.error]})
    return fault


def _status_message(told: Any) -> Any:
    if told is None:
        return None
    as_dict = getattr(told, "as_dict", None)
    return as_dict() if callable(as_dict) else told
