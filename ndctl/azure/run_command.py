"""Run Command: a script run as root inside an instance, over ARM's authenticated channel, whatever SSH does.

Azure gives the last 4 KB of each stream. https://learn.microsoft.com/azure/virtual-machines/linux/run-command, 2026-12
"""

from __future__ import annotations

from dataclasses import dataclass

from azure.mgmt.compute.models import RunCommandInput

from ndctl.azure.clients import COMPUTE_API, AzureClients
from ndctl.azure.waiting import finish

RUN_COMMAND_DEADLINE_S = 120
_OUT, _ERR = "[stdout]", "[stderr]"


@dataclass(frozen=True, slots=True)
class RunOutput:
    """What the script printed; each stream is cut to its last 4 KB by Azure."""

    stdout: str
    stderr: str


def run_command(
    clients: AzureClients, scale_set: str, instance_id: str, script: str, deadline_s: float = RUN_COMMAND_DEADLINE_S
) -> RunOutput:
    """Run an sh script and wait for its end. A VM whose agent does not work never ends it.

    Raises AzureError; NdctlError `azure.deadline` when `deadline_s` passed first.
    """
    poller = clients.compute.virtual_machine_scale_set_vms.begin_run_command(
        clients.resource_group,
        scale_set,
        instance_id,
        RunCommandInput(command_id="RunShellScript", script=script.splitlines()),
        api_version=COMPUTE_API,
    )
    result = finish(poller, deadline_s, f"run command on {scale_set} instance {instance_id}")
    return split_streams("\n".join(status.message or "" for status in (result.value or ())))


def split_streams(message: str) -> RunOutput:
    """The two streams in one message ("Enable succeeded: [stdout] ... [stderr] ..."); without marks all is stdout."""
    _, found, tail = message.partition(_OUT)
    if not found:
        return RunOutput(message, "")
    out, _, err = tail.rpartition(_ERR) if _ERR in tail else (tail, "", "")
    return RunOutput(out.strip("\n"), err.strip("\n"))
