"""Guest Health Reporting: one report put to Microsoft.Impact, and what Azure makes of it.

Plain REST through the SDK's own pipeline (sign-in, retries, pacing): the impact SDK is a beta with another API version.
https://learn.microsoft.com/azure/azure-impact-reporting/guest-health-impact-report, read 2026-12-02
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest

from ndctl.azure.clients import AzureClients
from ndctl.model.errors import ExitCode, NdctlError

REPORT_API = "2023-02-01-preview"
INSIGHTS_API = "2025-01-01-preview"
_MOST_PAGES = 50


@dataclass(frozen=True, slots=True)
class Insight:
    """One step of Azure's answer. code: AcknowledgedUnhealthy, NodeRemovedFromService, ...; last: no more will come."""

    code: str
    status: str
    time: str
    title: str
    last: bool


def refuse_unregistered(clients: AzureClients) -> None:
    """The SDK's pipeline would register a missing provider by itself; that is for a person to do.

    Raises NdctlError (exit 4). Who may not read the provider's state is told by Azure's own answer later.
    """
    try:
        state = clients.resources.providers.get("Microsoft.Impact").registration_state or ""
    except HttpResponseError:
        return
    if state.casefold() not in ("registered", "registering"):
        raise NdctlError(
            "azure.MissingSubscriptionRegistration",
            f"the subscription {clients.subscription} is not registered to use namespace 'Microsoft.Impact' ({state})",
            hint="az provider register --namespace Microsoft.Impact; reporting also needs onboarding by Azure and the "
            "role Azure Impact Reporter",
            exit_code=ExitCode.PREFLIGHT,
        )


def put_report(clients: AzureClients, name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Send one report under a name of its own. Raises AzureError."""
    url = f"{_base(clients)}/{name}?api-version={REPORT_API}"
    return _sent(clients, HttpRequest("PUT", url, json={"properties": dict(properties)}))


def list_reports(clients: AzureClients) -> list[dict[str, Any]]:
    """Reports of the subscription, as Azure has them. Raises AzureError."""
    return _pages(clients, f"{_base(clients)}?api-version={REPORT_API}")


def insights(clients: AzureClients, name: str) -> tuple[Insight, ...]:
    """What Azure has said of one report so far, oldest first. Raises AzureError."""
    found = []
    for one in _pages(clients, f"{_base(clients)}/{name}/insights?api-version={INSIGHTS_API}"):
        told = one.get("properties") or {}
        details = told.get("additionalDetails") or {}
        content = told.get("content") or {}
        found.append(
            Insight(
                code=str(details.get("statusCode", "")),
                status=str(told.get("status", "")),
                time=str(told.get("eventTime", "")),
                title=str(content.get("title", "")),
                last=details.get("terminalInsight") is True,
            )
        )
    return tuple(sorted(found, key=lambda one: one.time))


def _base(clients: AzureClients) -> str:
    root = clients.cloud.endpoint.rstrip("/")
    return f"{root}/subscriptions/{clients.subscription}/providers/Microsoft.Impact/workloadImpacts"


def _pages(clients: AzureClients, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _ in range(_MOST_PAGES):
        body = _sent(clients, HttpRequest("GET", url))
        found += body.get("value") or []
        url = str(body.get("nextLink") or "")
        if not url.startswith(clients.cloud.endpoint.rstrip("/")):
            break  # also a link that would take the token elsewhere
    return found


def _sent(clients: AzureClients, request: HttpRequest) -> dict[str, Any]:
    response = clients.resources.send_request(request)
    if response.status_code >= 400:
        raise HttpResponseError(response=response)
    body = response.json() if response.text() else {}
    return body if isinstance(body, dict) else {}
