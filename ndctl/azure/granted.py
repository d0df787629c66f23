"""What the signed-in identity may do at a scope, asked of Azure, and held against what is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from azure.core.rest import HttpRequest

from ndctl.azure.clients import AzureClients
from ndctl.azure.roles import Need, covers

# Permissions - List For Resource Group, learn.microsoft.com/rest/api/authorization/permissions
AUTHORIZATION_API = "2022-04-01"
_MOST_PAGES = 50


@dataclass(frozen=True, slots=True)
class Grant:
    """One role as it counts at a scope: `not_actions` take away from the same role's actions only."""

    actions: tuple[str, ...] = ()
    not_actions: tuple[str, ...] = ()
    data_actions: tuple[str, ...] = ()
    not_data_actions: tuple[str, ...] = ()

    def allows(self, action: str, *, data: bool = False) -> bool:
        """`action` may end in `*`: then all of it must be allowed, and nothing of it taken away."""
        given = self.data_actions if data else self.actions
        taken = self.not_data_actions if data else self.not_actions
        if not any(covers(pattern, action) for pattern in given):
            return False
        return not any(covers(pattern, action) or ("*" in action and covers(action, pattern)) for pattern in taken)


def grants_at(clients: AzureClients, scope: str) -> tuple[Grant, ...]:
    """The roles of whoever is signed in, at a scope (an ARM id) and above it. Raises AzureError."""
    url = f"{scope}/providers/Microsoft.Authorization/permissions?api-version={AUTHORIZATION_API}"
    found: list[Grant] = []
    for _ in range(_MOST_PAGES):
        response = clients.resources.send_request(HttpRequest("GET", url))
        response.raise_for_status()
        told = response.json()
        found += [_grant(one) for one in told.get("value") or ()]
        url = told.get("nextLink") or ""
        if not url:
            break
    return tuple(found)


def missing(needs: Iterable[Need], grants: Sequence[Grant]) -> tuple[Need, ...]:
    """Needs that no single role allows."""
    return tuple(need for need in needs if not any(grant.allows(need.action, data=need.data) for grant in grants))


def _grant(told: dict[str, Any]) -> Grant:
    def listed(key: str) -> tuple[str, ...]:
        return tuple(str(one) for one in told.get(key) or ())

    return Grant(listed("actions"), listed("notActions"), listed("dataActions"), listed("notDataActions"))
