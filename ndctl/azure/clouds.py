"""Which Azure: where its Resource Manager answers, where one signs in, and for which audience."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from azure.core import AzureClouds
from azure.identity import AzureAuthorityHosts
from azure.mgmt.core.tools import get_arm_endpoints

from ndctl.inventory.schema import CustomCloud
from ndctl.model.errors import ExitCode, NdctlError, Where

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


def resolve_cloud(
    cloud: str | CustomCloud, path_of: Callable[[str], Path], where: Callable[[str], Where] | None = None
) -> Cloud:
    """The cloud an inventory names. `path_of` makes a path of the inventory absolute; `where`: a key's place in it.

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
            where=where("cloud.endpoint") if where else None,
            exit_code=ExitCode.USAGE,
        )

    def existing(key: str, named: str | None) -> Path | None:
        return _existing(key, path_of(named), where(key) if where else None) if named else None

    endpoint = cloud.endpoint.rstrip("/")
    audience = (cloud.audience or endpoint).rstrip("/")
    authority = cloud.authority or AzureAuthorityHosts.AZURE_PUBLIC_CLOUD
    return Cloud(
        "custom",
        endpoint,
        authority.removeprefix("https://").rstrip("/"),
        f"{audience}/.default",
        ca=existing("cloud.ca", cloud.ca),
        identity=existing("cloud.identity", cloud.identity),
        poll_s=0.25,
    )


def _existing(key: str, path: Path, where: Where | None) -> Path:
    if not path.is_file():
        meant = "the CA that signs the endpoint" if key == "cloud.ca" else "the identity to sign in with"
        raise NdctlError(
            "cloud.no-file",
            f"{key}: {path} is a directory" if path.is_dir() else f"{key}: there is no file {path}",
            hint=f"put {meant} there, or name its place; an embedded region writes it when it starts: ndctl sim up",
            where=where,
            exit_code=ExitCode.USAGE,
        )
    return path
