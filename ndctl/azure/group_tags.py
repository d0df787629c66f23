"""Tags of the resource group: read, and ours merged in or taken away; nobody else's are touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.resource.resources.models import Tags, TagsPatchResource

from ndctl.azure.clients import AzureClients
from ndctl.azure.resources import find_group
from ndctl.azure.waiting import finish
from ndctl.render import names

WRITE_DEADLINE_S = 60
LONGEST_VALUE = 256  # learn.microsoft.com, "Use tags to organize your Azure resources"


def read_tags(clients: AzureClients) -> dict[str, str] | None:
    """Names in lower case, as Azure compares them. None: there is no such group. Raises AzureError."""
    group = find_group(clients)
    return None if group is None else {key.casefold(): value for key, value in (group.tags or {}).items()}


def merge_tags(clients: AzureClients, tags: Mapping[str, str]) -> bool:
    """Add or replace these; False: the group is gone. Raises AzureError, NdctlError when it takes too long."""
    return _patch(clients, "Merge", {key: value[:LONGEST_VALUE] for key, value in tags.items()})


def drop_tags(clients: AzureClients, tags: Mapping[str, str]) -> bool:
    """Take these away, by name and value. As `merge_tags`."""
    return _patch(clients, "Delete", tags)


def _patch(clients: AzureClients, operation: str, tags: Mapping[str, str]) -> bool:
    scope = names.resource_group_id(clients.subscription, clients.resource_group).lstrip("/")
    request: Any = TagsPatchResource(operation=operation, properties=Tags(tags=dict(tags)))
    try:
        poller = clients.resources.tags.begin_update_at_scope(scope, request)
        finish(poller, WRITE_DEADLINE_S, f"tags of resource group {clients.resource_group}")
    except ResourceNotFoundError:
        return False
    return True
