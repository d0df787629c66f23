"""Which Azure: where its Resource Manager answers, where one signs in, and for which audience."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from azure.core import AzureClouds
from azure.identity import AzureAuthorityHosts
from azure.mgmt.core.tools import get_arm_endpoints

from ndctl.inventory.schema import CustomCloud
from ndctl.model.errors import ExitCode, NdctlError

_NAMED = {
    "public": (AzureClouds.AZURE_PUBLIC_CLOUD, AzureAuthorityHosts.AZURE_PUBLIC_CLOUD),
    "usgov": (AzureClouds.AZURE_US_GOVERNMENT, AzureAuthorityHosts.AZURE_GOVERNMENT),
    "china": (AzureClouds.AZURE_CHINA_CLOUD, AzureAuthorityHosts.AZURE_CHINA),
}

AZURE_POLL_S = 10.0


@dataclass(frozen=True, slots=True)
class Cloud:
    """One Azure.

    endpoint:  https URL of Resource Manager, without a trailing slash
    authority: host (and port) of the sign-in authority
    scope:     what a token is asked for
    ca:        PEM file that signs endpoint and authority; None: the system's
    identity:  JSON file {tenant_id, client_id, token_file}; None: azure-identity's default order
    poll_s:    how often a long operation is asked about when the answer carries no Retry-After
    """

    name: str
    endpoint: str
    authority: str
    scope: str
    ca: Path | None = None
    identity: Path | None = None
    poll_s: float = AZURE_POLL_S

    @property
    def custom(self) -> bool:
        return self.name == "custom"

    @property
    def speed(self) -> float:
        """How many times as fast as Azure it lives: an embedded region is asked that much more often."""
        return AZURE_POLL_S / self.poll_s

    @property
    def verify(self) -> str | bool:
        """The `connection_verify` of every SDK client: a CA file, or the system's certificates. Never off."""
        return str(self.ca) if self.ca else True


def resolve_cloud(cloud: str | CustomCloud, path_of: Callable[[str], Path]) -> Cloud:
    """The cloud an inventory names. `path_of` makes a path of the inventory absolute.

    Raises NdctlError (exit 2) for an endpoint that is not https and for files that do not exist.
    """
    if isinstance(cloud, str):
        setting, authority = _NAMED[cloud]
        endpoints = get_arm_endpoints(setting)
        return Cloud(
            cloud, str(endpoints["resource_manager"]).rstrip("/"), authority, endpoints["credential_scopes"][0]
        )
    if not cloud.endpoint.startswith("https://"):
        raise NdctlError(
            "cloud.not-https",
            f"cloud.endpoint is {cloud.endpoint}; a sign-in token is only ever sent over https",
            hint="write an https:// URL and give its CA with cloud.ca",
            exit_code=ExitCode.USAGE,
        )
    endpoint = cloud.endpoint.rstrip("/")
    audience = (cloud.audience or endpoint).rstrip("/")
    authority = cloud.authority or AzureAuthorityHosts.AZURE_PUBLIC_CLOUD
    return Cloud(
        "custom",
        endpoint,
        authority.removeprefix("https://").rstrip("/"),
        f"{audience}/.default",
        ca=_existing("cloud.ca", path_of(cloud.ca)) if cloud.ca else None,
        identity=_existing("cloud.identity", path_of(cloud.identity)) if cloud.identity else None,
        poll_s=0.25,
    )


def _existing(key: str, path: Path) -> Path:
    if not path.is_file():
        raise NdctlError(
            "cloud.no-file",
            f"{key}: there is no file {path}",
            hint="the embedded region writes it when it starts: ndctl sim up",
            exit_code=ExitCode.USAGE,
        )
    return path
