"""What Azure still runs of a cluster from before: of a deploy that was interrupted, or of another machine."""

from __future__ import annotations

from collections.abc import Callable

from ndctl.azure.clients import AzureClients
from ndctl.azure.deployments import unfinished

_NAMED = 5


def tell_unfinished(clients: AzureClients, cluster: str, say: Callable[[str], None]) -> tuple[str, ...]:
    """Names of the deployments; said in one line. Raises NdctlError when Azure cannot be asked."""
    with clients.telling(f"listing the deployments of resource group {clients.resource_group}"):
        found = unfinished(clients, f"{cluster}-")
    if found:
        named = ", ".join(f"{name} since {since}" if since else name for name, since in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        say(f"still running in Azure from before: {named}{more}; racks with changes wait for theirs first")
    return tuple(name for name, _ in found)
