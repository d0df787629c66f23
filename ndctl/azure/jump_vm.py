"""The jump VM that ndctl deploys: its public address and its SSH host keys, both from Azure's authenticated channel."""

from __future__ import annotations

from dataclasses import dataclass

from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.compute.models import RunCommandInput

from ndctl.azure.clients import COMPUTE_API, AzureClients
from ndctl.azure.host_keys import HOST_KEYS_SCRIPT, public_keys
from ndctl.azure.run_command import RUN_COMMAND_DEADLINE_S
from ndctl.azure.waiting import finish


@dataclass(frozen=True, slots=True)
class JumpVm:
    """`keys` as ("ssh-ed25519", base64) pairs; address "" when the VM has no public address yet."""

    vm_id: str
    address: str
    keys: tuple[tuple[str, str], ...]


def find_jump_vm(clients: AzureClients, vm_name: str, public_ip_name: str, known_vm_id: str = "") -> JumpVm | None:
    """None when there is no such VM. Host keys are asked for only when the VM is not `known_vm_id`.

    Raises what the SDKs raise, and NdctlError when the VM does not answer in time.
    """
    try:
        vm = clients.compute.virtual_machines.get(clients.resource_group, vm_name, api_version=COMPUTE_API)
        address = clients.network.public_ip_addresses.get(clients.resource_group, public_ip_name)
    except ResourceNotFoundError:
        return None
    vm_id = (vm.properties.vm_id if vm.properties else "") or ""
    ip = (address.properties.ip_address if address.properties else "") or ""
    if vm_id and vm_id == known_vm_id:
        return JumpVm(vm_id, ip, ())
    poller = clients.compute.virtual_machines.begin_run_command(
        clients.resource_group,
        vm_name,
        RunCommandInput(command_id="RunShellScript", script=[HOST_KEYS_SCRIPT]),
        api_version=COMPUTE_API,
    )
    result = finish(poller, RUN_COMMAND_DEADLINE_S, f"run command on {vm_name}")
    text = "\n".join(status.message or "" for status in (result.value or ()))
    return JumpVm(vm_id, ip, public_keys(text))
