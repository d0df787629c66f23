"""The serial console's log of an instance, from boot diagnostics: what a VM said when nothing else of it answers."""

from __future__ import annotations

from azure.core import PipelineClient
from azure.core.pipeline.policies import RetryPolicy
from azure.core.rest import HttpRequest, HttpResponse

from ndctl.azure.clients import COMPUTE_API, AzureClients
from ndctl.azure.clouds import Cloud

_CAP_BYTES = 4_000_000


def console_log(clients: AzureClients, scale_set: str, instance_id: str) -> str:
    """The log, at most its last 4 MB; "" where boot diagnostics gives none. Raises AzureError."""
    told = clients.compute.virtual_machine_scale_set_vms.retrieve_boot_diagnostics_data(
        clients.resource_group, scale_set, instance_id, api_version=COMPUTE_API
    )
    url = told.serial_console_log_blob_uri
    return _read_blob(url, clients.cloud) if url else ""


def _read_blob(url: str, cloud: Cloud) -> str:
    """The blob behind a SAS URL. The URL is a secret, and the sign-in token must not go there: a bare pipeline."""
    if not url.startswith("https://"):
        return ""
    client: PipelineClient[HttpRequest, HttpResponse] = PipelineClient(
        url,
        policies=[RetryPolicy(retry_total=2, timeout=60)],
        connection_verify=cloud.verify,
        connection_timeout=10,
        read_timeout=30,
    )
    with client:
        response = client.send_request(HttpRequest("GET", url), stream=True)
        response.raise_for_status()
        # The newest boot is at the end of the log.
        tail = b""
        for chunk in response.iter_bytes():
            tail = (tail + chunk)[-_CAP_BYTES:]
        return tail.decode("utf-8", "replace")
