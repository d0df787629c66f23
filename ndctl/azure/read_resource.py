"""One resource as Azure has it now, as plain JSON, in the API version it was rendered for."""

from __future__ import annotations

from typing import Any

from azure.core.exceptions import ResourceNotFoundError

from ndctl.azure.clients import AzureClients


def read_resource(clients: AzureClients, resource_id: str, api_version: str) -> dict[str, Any] | None:
    """None where it is not there. Raises AzureError for everything else that is no answer."""
    try:
        told: Any = clients.resources.resources.get_by_id(resource_id.lstrip("/"), api_version=api_version)
    except ResourceNotFoundError:
        return None
    # The model keeps every key that Azure sent, also ones it has no name for.
    plain: dict[str, Any] = told.as_dict()
    return plain
