"""For each cloud: which authority is asked, for which scope, in which tenant, and where the calls then go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from azure.core.credentials import AccessToken, AccessTokenInfo
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from azure.identity import ChainedTokenCredential, WorkloadIdentityCredential

from ndctl.azure import credentials
from ndctl.azure.clients import connect
from ndctl.azure.clouds import resolve_cloud
from ndctl.azure.credentials import RenewableCredential
from ndctl.inventory.loader import Loaded, load

TENANT = "44444444-4444-4444-8444-444444444444"
INVENTORY = """\
cluster: lab
cloud: {cloud}
{tenant}
subscription: 00000000-0000-0000-0000-000000000000
resource_group: rg
region: {region}
racks: 1
vm_size: Standard_ND128isr_GB300_v6
network: {{create: 10.0.0.0/16}}
"""


class Recording:
    """Stands where azure-identity's chain stands; keeps what it was made with and asked for."""

    made: ClassVar[list[dict[str, Any]]] = []
    asked: ClassVar[list[tuple[tuple[str, ...], str | None]]] = []

    def __init__(self, **options: Any) -> None:
        self.made.append(options)

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        self.asked.append((scopes, options.get("tenant_id")))
        return AccessToken("x.y.z", 2_000_000_000)

    def get_token_info(self, *scopes: str, options: dict[str, Any] | None = None) -> AccessTokenInfo:
        self.asked.append((scopes, (options or {}).get("tenant_id")))
        return AccessTokenInfo("x.y.z", 2_000_000_000)


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Recording]]:
    monkeypatch.setattr(credentials, "DefaultAzureCredential", Recording)
    Recording.made, Recording.asked = [], []
    yield Recording


def inventory(folder: Path, cloud: str, tenant: str | None) -> Loaded:
    path = folder / "lab.yaml"
    region = {"usgov": "usgovvirginia", "china": "chinanorth3"}.get(cloud, "swedencentral")
    path.write_text(INVENTORY.format(cloud=cloud, region=region, tenant=f"tenant: {tenant}" if tenant else ""))
    return load(path)


@pytest.mark.parametrize("tenant", [None, TENANT, "contoso.onmicrosoft.com"])
@pytest.mark.parametrize(
    ("cloud", "authority", "scope", "endpoint"),
    [
        (
            "public",
            "https://login.microsoftonline.com",
            "https://management.azure.com/.default",
            "https://management.azure.com",
        ),
        (
            "usgov",
            "https://login.microsoftonline.us",
            "https://management.core.usgovcloudapi.net/.default",
            "https://management.usgovcloudapi.net",
        ),
        (
            "china",
            "https://login.chinacloudapi.cn",
            "https://management.chinacloudapi.cn/.default",
            "https://management.chinacloudapi.cn",
        ),
        (
            "{endpoint: 'https://arm.lab:8443/', authority: 'https://login.lab/', audience: 'https://arm.lab/aud/'}",
            "https://login.lab",
            "https://arm.lab/aud/.default",
            "https://arm.lab:8443",
        ),
        (
            "{endpoint: 'https://arm.lab'}",
            "https://login.microsoftonline.com",
            "https://arm.lab/.default",
            "https://arm.lab",
        ),
    ],
)
def test_authority_scope_tenant_and_endpoint(
    tmp_path: Path, chain: type[Recording], cloud: str, authority: str, scope: str, endpoint: str, tenant: str | None
) -> None:
    clients = connect(inventory(tmp_path, cloud, tenant))
    try:
        (made,) = chain.made
        assert made["authority"] == authority
        assert made.get("workload_identity_tenant_id") == tenant
        assert made.get("additionally_allowed_tenants") == ([tenant] if tenant else None)
        assert made.get("disable_instance_discovery", False) is cloud.startswith("{")
        assert chain.asked == [((scope,), tenant)]
        # What an SDK client asks for when it makes a call, and where it sends it.
        for client in (clients.compute, clients.network, clients.resources, clients.deployments):
            config = client._config
            assert config.credential_scopes == [scope]
            config.credential.get_token_info(*config.credential_scopes, options={"enable_cae": True})
            assert chain.asked[-1] == ((scope,), tenant)
            assert config.base_url == endpoint
    finally:
        clients.close()


def test_a_tenant_that_a_challenge_names_wins(chain: type[Recording]) -> None:
    credential = RenewableCredential(lambda: Recording(), TENANT)
    credential.get_token("s/.default", tenant_id="other")
    assert chain.asked == [(("s/.default",), "other")]


@pytest.mark.parametrize(
    ("cloud", "authority"), [("usgov", "login.microsoftonline.us"), ("china", "login.chinacloudapi.cn")]
)
def test_workload_identity_asks_the_clouds_own_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cloud: str, authority: str
) -> None:
    """By azure-identity's own chain, as in a pipeline: it asks no authority but this one."""
    (tmp_path / "token").write_text("federated")
    monkeypatch.setenv("AZURE_CLIENT_ID", TENANT)
    monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
    made = credentials.credential_for(resolve_cloud(cloud, Path), None)
    assert isinstance(made, ChainedTokenCredential)
    (workload,) = [one for one in made.credentials if isinstance(one, WorkloadIdentityCredential)]
    asked: list[str] = []

    def send(self: Any, request: Any, **options: Any) -> Any:
        asked.append(urlsplit(request.url).netloc)
        raise ServiceRequestError("no network in this test")

    monkeypatch.setattr("azure.core.pipeline.transport.RequestsTransport.send", send)
    monkeypatch.setattr("azure.core.pipeline.transport.RequestsTransport.sleep", lambda self, duration: None)
    with pytest.raises((ServiceRequestError, ClientAuthenticationError)):
        workload.get_token("https://management.azure.com/.default")
    assert set(asked) == {authority}
