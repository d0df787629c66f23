"""What ARM can do to one VM of a scale set: look at it, restart, reimage, redeploy, delete; and grow the set again.

A POST or DELETE that changes a VM is sent once: azure-core would send a POST again after 500, 503 and 504, and a second
redeploy is not the first. Polling it is a read and is retried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.core.polling import LROPoller
from azure.core.rest import HttpRequest
from azure.mgmt.compute.models import Sku, VirtualMachineScaleSetUpdate
from azure.mgmt.core.polling.arm_polling import ARMPolling

from ndctl.azure.clients import COMPUTE_API, NO_REPLAY, AzureClients
from ndctl.azure.faults import FaultError, fault_from_body
from ndctl.azure.waiting import finish

# Redeploy and delete wait for a host; an ephemeral disk is written anew. ndctl's own limits, 2026-12.
ACTION_DEADLINE_S = 2700.0
GROW_DEADLINE_S = 3600.0
ACTIONS = ("restart", "reimage", "redeploy")


@dataclass(frozen=True, slots=True)
class MachineView:
    """One instance as ARM sees it.

    power:        "running", "stopped", "deallocated", ...; "" if not told
    agent:        what the VM agent's status is called: "Ready", "Not Ready"; "" where none is told
    agent_said:   the agent's own message
    agent_heard:  when it last reported, RFC 3339; "" if not told
    created:      when this VM was made, RFC 3339; changes when it is replaced, not at a reboot
    """

    instance_id: str
    vm_id: str
    provisioning: str
    power: str
    agent: str
    agent_said: str
    agent_heard: str
    created: str
    raw: dict[str, Any]

    @property
    def agent_ready(self) -> bool:
        return self.agent.casefold() == "ready"


def machine_view(clients: AzureClients, scale_set: str, instance_id: str) -> MachineView | None:
    """None when there is no such instance. Raises AzureError."""
    try:
        vm = clients.compute.virtual_machine_scale_set_vms.get(
            clients.resource_group, scale_set, instance_id, expand="instanceView", api_version=COMPUTE_API
        )
    except ResourceNotFoundError:
        return None
    told = vm.properties
    view = told.instance_view if told else None
    agent = view.vm_agent if view else None
    status = next(iter(agent.statuses or ()), None) if agent else None
    power = ""
    for one in (view.statuses or ()) if view else ():
        kind, _, state = (one.code or "").partition("/")
        if kind.casefold() == "powerstate":
            power = state.casefold()
    return MachineView(
        instance_id=vm.instance_id or instance_id,
        vm_id=(told.vm_id or "") if told else "",
        provisioning=(told.provisioning_state or "").casefold() if told else "",
        power=power,
        agent=(status.display_status or "") if status else "",
        agent_said=(status.message or "") if status else "",
        agent_heard=_when(status.time) if status else "",
        created=_when(told.time_created) if told else "",
        raw=view.as_dict() if view else {},
    )


def act(
    clients: AzureClients,
    scale_set: str,
    instance_id: str,
    action: str,
    deadline_s: float = ACTION_DEADLINE_S,
    on_operation: Callable[[str], None] = lambda url: None,
) -> None:
    """Restart, reimage or redeploy one instance and wait. `on_operation` is told where Azure tells of it, before the
    wait, so that it can be found again. Raises AzureError; NdctlError `azure.deadline`."""
    machines = clients.compute.virtual_machine_scale_set_vms
    begin = {"restart": machines.begin_restart, "reimage": machines.begin_reimage, "redeploy": machines.begin_redeploy}
    poller: LROPoller[None] = begin[action](  # type: ignore[operator]
        clients.resource_group,
        scale_set,
        instance_id,
        api_version=COMPUTE_API,
        raw_response_hook=_tells_operation(clients, on_operation),
        **_sent_once(clients),
    )
    finish(poller, deadline_s, f"{action} of {scale_set} instance {instance_id}")


def operation_ended(clients: AzureClients, url: str) -> bool | None:
    """Whether an operation sent earlier has succeeded: False while it goes on, None when Azure knows it no more.

    Raises AzureError: FaultError when it failed, others when Azure cannot be asked.
    """
    response = clients.resources.send_request(HttpRequest("GET", url))
    if response.status_code in (404, 410):
        return None
    if response.status_code >= 400:
        raise HttpResponseError(response=response)
    body = response.json() if response.status_code == 200 and response.text() else {}
    status = str(body.get("status", "")).casefold() if isinstance(body, dict) else ""
    if status in ("failed", "canceled"):
        raise FaultError(fault_from_body(body.get("error") or body, fallback=f"the operation ended as {status}"))
    return status == "succeeded" if status else response.status_code != 202


def delete_instance(
    clients: AzureClients, scale_set: str, instance_id: str, deadline_s: float = ACTION_DEADLINE_S
) -> None:
    """Delete one instance and wait; already gone is fine. The set's capacity falls by one with it."""
    try:
        poller = clients.compute.virtual_machine_scale_set_vms.begin_delete(
            clients.resource_group, scale_set, instance_id, api_version=COMPUTE_API, **_sent_once(clients)
        )
        finish(poller, deadline_s, f"deleting {scale_set} instance {instance_id}")
    except ResourceNotFoundError:
        return


def capacity_of(clients: AzureClients, scale_set: str) -> int:
    """How many instances the set is asked for."""
    one = clients.compute.virtual_machine_scale_sets.get(clients.resource_group, scale_set, api_version=COMPUTE_API)
    return int(one.sku.capacity or 0) if one.sku else 0


def grow(clients: AzureClients, scale_set: str, capacity: int, deadline_s: float = GROW_DEADLINE_S) -> None:
    """Ask the set for `capacity` instances and wait; asking again for the same is harmless. Raises AzureError."""
    wanted = VirtualMachineScaleSetUpdate(sku=Sku(capacity=capacity))
    poller = clients.compute.virtual_machine_scale_sets.begin_update(
        clients.resource_group, scale_set, wanted, api_version=COMPUTE_API
    )
    finish(poller, deadline_s, f"growing {scale_set} to {capacity} instances")


def _sent_once(clients: AzureClients) -> dict[str, Any]:
    """The polling is given by hand, since options of the first call would hold for every poll, too."""
    return {**NO_REPLAY, "polling": ARMPolling(clients.cloud.poll_s)}


def _tells_operation(clients: AzureClients, on_operation: Callable[[str], None]) -> Callable[[Any], None]:
    def hook(response: Any) -> None:
        told = response.http_response
        url = told.headers.get("Azure-AsyncOperation") or told.headers.get("Location") or ""
        # A link to elsewhere would take the token along.
        if told.status_code in (200, 201, 202) and url.startswith(clients.cloud.endpoint.rstrip("/") + "/"):
            on_operation(url)

    return hook


def _when(told: Any) -> str:
    return told.isoformat() if told is not None and hasattr(told, "isoformat") else str(told or "")
