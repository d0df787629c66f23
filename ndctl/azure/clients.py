"""The four SDK clients of one inventory, signed in, with deadlines on every call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.resource.deployments import DeploymentsMgmtClient
from azure.mgmt.resource.resources import ResourceManagementClient

from ndctl.azure.calls import Tally
from ndctl.azure.clouds import Cloud, resolve_cloud
from ndctl.azure.credentials import RenewableCredential, credential_for, redact, sign_in, tenant_of
from ndctl.azure.faults import endpoint_unreachable, error_from_fault, fault_from_exception
from ndctl.azure.identity import Identity
from ndctl.azure.pacing import pace_for
from ndctl.azure.pacing_policy import CALL_DEADLINE_S, Clock, PacingPolicy, RenewalPolicy, Retries
from ndctl.inventory.schema import Inventory
from ndctl.model.errors import ExitCode, NdctlError

CONNECT_TIMEOUT_S = 10
BACKOFF_S = 0.8  # doubled at every retry, as the SDKs do by default
READ_TIMEOUT_S = 60
# azure-core sends a POST again after 500, 503 and 504. For a POST that changes something, pass this to the call.
NO_REPLAY: dict[str, Any] = {"retry_total": 0}
# A POST that only asks may be sent again as a GET is, e.g. after its connection was reset.
ASKS_ONLY: dict[str, Any] = {"retry_on_methods": ["GET", "POST"]}
# Compute calls name their API version: ComputeManagementClient silently ignores one given to the client. Interconnect
# types need 2026-03-01 or later (the subgroup of an instance; 2025-11-01 for blocks).
COMPUTE_API = "2026-04-01"
NETWORK_API = "2026-03-01"


class LoadedInventory(Protocol):
    """What azure needs of `inventory.loader.Loaded`."""

    @property
    def inventory(self) -> Inventory: ...

    @property
    def path(self) -> Path: ...

    @property
    def path_of(self) -> Callable[[str], Path]: ...


def _nobody() -> Identity | None:
    """A credential handed in from outside does not say whose it is."""
    return None


@dataclass(frozen=True, slots=True)
class AzureClients:
    """Clients of one subscription. Safe to share between threads."""

    cloud: Cloud
    subscription: str
    resource_group: str
    region: str
    compute: ComputeManagementClient
    network: NetworkManagementClient
    resources: ResourceManagementClient
    deployments: DeploymentsMgmtClient
    tally: Tally = field(default_factory=Tally)
    clock: Clock = field(default_factory=Clock)
    who: Callable[[], str] = str  # name or application id of who is signed in, "" if unknown
    identity: Callable[[], Identity | None] = _nobody

    @contextmanager
    def telling(self, doing: str, exit_code: ExitCode = ExitCode.PREFLIGHT) -> Iterator[None]:
        """Turn whatever the SDKs raise inside into an NdctlError that says what was being done."""
        try:
            yield
        except (ServiceRequestError, ServiceResponseError) as error:
            raise endpoint_unreachable(self.cloud.endpoint, "Azure Resource Manager", error) from error
        except AzureError as error:
            if isinstance(error, ClientAuthenticationError) and error.response is None:
                raise NdctlError(
                    "azure.sign-in",
                    f"{doing}: the sign-in could not be renewed: {redact(str(error.message))}",
                    hint="sign in again and run the same command again",
                    exit_code=ExitCode.PERMISSION,
                ) from error
            raise error_from_fault(fault_from_exception(error), doing, exit_code) from error

    def close(self) -> None:
        for client in (self.compute, self.network, self.resources, self.deployments):
            client.close()


def connect(loaded: LoadedInventory, *, credential: TokenCredential | None = None) -> AzureClients:
    """Sign in and make the clients of an inventory's subscription.

    Raises NdctlError: exit 2 for static racks and wrong cloud settings, 3 when not signed in, 4 when the sign-in
    authority cannot be reached.
    """
    inventory = loaded.inventory
    if inventory.subscription is None or inventory.resource_group is None or inventory.region is None:
        raise NdctlError(
            "azure.static",
            f"{inventory.cluster} lists static racks, which are not on Azure",
            hint=f"ndctl validate {loaded.path}",
            exit_code=ExitCode.USAGE,
        )
    cloud = resolve_cloud(inventory.cloud, loaded.path_of, loaded.where)
    renewable = None
    if credential is None:
        credential = renewable = RenewableCredential(
            lambda: credential_for(cloud, inventory.tenant), tenant_of(cloud, inventory.tenant)
        )
    sign_in(credential, cloud, inventory.tenant)
    # Request logs of the SDKs hold URLs and headers; ndctl tells its own story.
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    options: dict[str, Any] = {
        "base_url": cloud.endpoint,
        "credential_scopes": [cloud.scope],
        "connection_verify": cloud.verify,
        "connection_timeout": CONNECT_TIMEOUT_S,
        "read_timeout": READ_TIMEOUT_S,
        "polling_interval": cloud.poll_s,
    }
    subscription = inventory.subscription
    pace = pace_for(cloud.endpoint, subscription, cloud.speed)
    tally, clock = Tally(), Clock()

    def own() -> dict[str, Any]:
        """A pipeline strings its policies together, so each client has ones of its own."""
        renewal = [RenewalPolicy(renewable)] if renewable else []
        return {
            **options,
            "retry_policy": Retries(
                timeout=CALL_DEADLINE_S,
                retry_connect=2,
                retry_status=5,
                retry_total=6,
                retry_backoff_factor=BACKOFF_S / cloud.speed,
            ),
            "per_retry_policies": [*renewal, PacingPolicy(pace, tally, clock)],
        }

    return AzureClients(
        cloud=cloud,
        subscription=subscription,
        resource_group=inventory.resource_group,
        region=inventory.region,
        compute=ComputeManagementClient(credential, subscription, **own()),
        network=NetworkManagementClient(credential, subscription, **own()),
        resources=ResourceManagementClient(credential, subscription, **own()),
        deployments=DeploymentsMgmtClient(credential, subscription, **own()),
        tally=tally,
        clock=clock,
        who=renewable.who if renewable else str,
        identity=renewable.identity if renewable else _nobody,
    )
