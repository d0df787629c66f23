"""A running region and the official SDKs signed in to it: the only way these tests speak with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.identity import WorkloadIdentityCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.resource.deployments import DeploymentsMgmtClient
from azure.mgmt.resource.resources import ResourceManagementClient

from ndctl.sim.control import end, start
from ndctl.sim.faults import FaultBook
from ndctl.sim.state import SimDirectory

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
GOLDEN = Path(__file__).parents[1] / "golden" / "two-racks"
PACE = {"port": 0, "ssh_port": 0, "pulse_s": 0.01}


@dataclass(frozen=True)
class Region:
    """One running region; clients poll without waiting."""

    path: Path
    endpoint: str
    ssh_port: int
    credential: WorkloadIdentityCredential
    compute: ComputeManagementClient
    network: NetworkManagementClient
    resources: ResourceManagementClient
    deployments: DeploymentsMgmtClient

    @property
    def ca(self) -> str:
        return str(self.path / "ca.pem")

    def group(self, name: str, location: str = "swedencentral") -> str:
        self.resources.resource_groups.create_or_update(name, {"location": location})  # type: ignore[call-overload]
        return name

    def deploy(self, group: str, name: str, template: dict[str, Any], **parameters: Any) -> Any:
        """The ended deployment; HttpResponseError when it fails."""
        body = request(template, **parameters)
        return self.deployments.deployments.begin_create_or_update(group, name, body).result()

    def what_if(self, group: str, template: dict[str, Any], **parameters: Any) -> Any:
        return self.deployments.deployments.begin_what_if(group, "what-if", request(template, **parameters)).result()

    def validate(self, group: str, template: dict[str, Any], **parameters: Any) -> Any:
        return self.deployments.deployments.begin_validate(group, "validate", request(template, **parameters)).result()


def credential(path: Path, endpoint: str, **changes: Any) -> WorkloadIdentityCredential:
    told = json.loads((path / "identity.json").read_text())
    options = {
        "tenant_id": told["tenant_id"],
        "client_id": told["client_id"],
        "token_file_path": str(path / told["token_file"]),
        "authority": endpoint.removeprefix("https://"),
        "disable_instance_discovery": True,
        "connection_verify": str(path / "ca.pem"),
    }
    return WorkloadIdentityCredential(**{**options, **changes})


def open_region(path: Path, endpoint: str, ssh_port: int) -> Region:
    signed_in = credential(path, endpoint)
    options: dict[str, Any] = {
        "base_url": endpoint,
        "credential_scopes": [f"{endpoint}/.default"],
        "connection_verify": str(path / "ca.pem"),
        "polling_interval": 0.01,
        "retry_backoff_factor": 0.01,
    }
    return Region(
        path,
        endpoint,
        ssh_port,
        signed_in,
        ComputeManagementClient(signed_in, SUBSCRIPTION, **options),
        NetworkManagementClient(signed_in, SUBSCRIPTION, **options),
        ResourceManagementClient(signed_in, SUBSCRIPTION, **options),
        DeploymentsMgmtClient(signed_in, SUBSCRIPTION, **options),
    )


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    """A region for one test module; each test has its resource group."""
    directory = SimDirectory(tmp_path_factory.mktemp("region") / "sim")
    running = start(directory, PACE)
    try:
        yield open_region(directory.path, running.endpoint, running.ssh_port)
    finally:
        end(directory)


@pytest.fixture
def faults(region: Region) -> Iterator[FaultBook]:
    """The region's fault book, emptied afterwards."""
    book = FaultBook(region.path / "faults.json")
    yield book
    book.clear()


def request(template: dict[str, Any], **parameters: Any) -> Any:
    given = {name: {"value": value} for name, value in parameters.items()}
    return {"properties": {"mode": "Incremental", "template": template, "parameters": given}}


def golden(stem: str, group: str) -> dict[str, Any]:
    """A template as ndctl renders it, moved to another resource group."""
    text = (GOLDEN / f"{stem}.json").read_text()
    found: dict[str, Any] = json.loads(text.replace("/resourceGroups/rg-swc-a/", f"/resourceGroups/{group}/"))
    return found


def golden_key() -> str:
    told = json.loads((GOLDEN / "rack01.parameters.json").read_text())
    return str(told["parameters"]["sshPublicKey"]["value"])


def template(*resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "resources": list(resources),
        **more,
    }


def identity(name: str, **more: Any) -> dict[str, Any]:
    """The smallest resource there is."""
    return {
        "type": "Microsoft.ManagedIdentity/userAssignedIdentities",
        "apiVersion": "2024-11-30",
        "name": name,
        "location": "swedencentral",
        **more,
    }


def causes(error: HttpResponseError) -> list[str]:
    """The codes of an error from the outermost inwards, first detail first."""
    found, level = [], error.error
    while level is not None:
        found.append(str(level.code))
        level = level.details[0] if level.details else None
    return found
