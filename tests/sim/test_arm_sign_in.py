"""Sign-in through azure-identity, and what a request without a good token is told."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError
from azure.mgmt.resource.resources import ResourceManagementClient

from ndctl.sim.control import end, start
from ndctl.sim.state import SimDirectory
from tests.sim.arm_clients import PACE, SUBSCRIPTION, Region, credential, open_region, region

__all__ = ["region"]


class Fixed:
    """A credential that always has the same token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *scopes: str, **options: object) -> AccessToken:
        return AccessToken(self._token, 1 << 40)


@pytest.fixture
def short_lived(tmp_path: Path) -> Iterator[Region]:
    """A region whose tokens have ended when they are given out."""
    directory = SimDirectory(tmp_path / "sim")
    running = start(directory, {**PACE, "token_s": 0})
    try:
        yield open_region(directory.path, running.endpoint, running.ssh_port)
    finally:
        end(directory)


def client(region: Region, token: str) -> ResourceManagementClient:
    return ResourceManagementClient(
        Fixed(token),
        SUBSCRIPTION,
        base_url=region.endpoint,
        credential_scopes=[f"{region.endpoint}/.default"],
        connection_verify=region.ca,
        retry_total=0,
    )


def test_a_workload_identity_gets_a_token_for_the_audience_it_asks(region: Region) -> None:
    token = region.credential.get_token(f"{region.endpoint}/.default")
    part = token.token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert claims["aud"] == region.endpoint
    assert claims["exp"] - claims["iat"] == 3600
    assert not region.resources.resource_groups.check_existence("nowhere")


def test_the_usual_audience_of_public_azure_is_taken_too(region: Region) -> None:
    token = region.credential.get_token("https://management.azure.com/.default").token
    assert not client(region, token).resource_groups.check_existence("nowhere")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"client_id": "99999999-0000-4000-8000-000000000000"}, "AADSTS700016"),
        ({"tenant_id": "99999999-0000-4000-8000-000000000000"}, "AADSTS90002"),
    ],
)
def test_strangers_are_refused(region: Region, changes: dict[str, str], reason: str) -> None:
    with pytest.raises(ClientAuthenticationError, match=reason):
        credential(region.path, region.endpoint, **changes).get_token(f"{region.endpoint}/.default")


def test_a_wrong_federated_token_is_refused(region: Region, tmp_path: Path) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("e30.e30.e30")
    with pytest.raises(ClientAuthenticationError, match="AADSTS700027"):
        credential(region.path, region.endpoint, token_file_path=str(wrong)).get_token(f"{region.endpoint}/.default")


@pytest.mark.parametrize("token", ["nonsense", "e30.e30.e30"])
def test_a_token_of_nobody_is_unauthorized(region: Region, token: str) -> None:
    with pytest.raises(ClientAuthenticationError) as caught:
        client(region, token).resource_groups.check_existence("nowhere")
    assert caught.value.status_code == 401
    assert "authorization_uri=" in caught.value.response.headers["WWW-Authenticate"]


def test_a_token_for_another_audience_is_unauthorized(region: Region) -> None:
    token = region.credential.get_token("https://vault.azure.net/.default").token
    with pytest.raises(HttpResponseError) as caught:
        list(client(region, token).resource_groups.list())
    assert caught.value.error is not None and caught.value.error.code == "InvalidAuthenticationTokenAudience"


def test_a_token_that_has_ended_is_unauthorized(short_lived: Region) -> None:
    token = short_lived.credential.get_token(f"{short_lived.endpoint}/.default").token
    with pytest.raises(HttpResponseError) as caught:
        list(client(short_lived, token).resource_groups.list())
    assert caught.value.status_code == 401
    assert caught.value.error is not None and caught.value.error.code == "ExpiredAuthenticationToken"


def test_the_sdk_trusts_the_endpoint_by_its_own_ca_only(region: Region) -> None:
    stranger = ResourceManagementClient(
        Fixed("x"), SUBSCRIPTION, base_url=region.endpoint, credential_scopes=["x"], retry_total=0
    )
    with pytest.raises(ServiceRequestError, match=r"CERTIFICATE_VERIFY_FAILED|certificate"):
        list(stranger.resource_groups.list())


def test_plain_http_gets_no_answer(region: Region) -> None:
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(region.endpoint.replace("https", "http") + "/subscriptions?api-version=2025-04-01", timeout=10)


def test_secrets_are_for_their_owner_only_and_not_in_the_request_log(region: Region) -> None:
    for name in ("id_ed25519", "federated.jwt", "server.pem", "signing.key"):
        assert (region.path / name).stat().st_mode & 0o077 == 0, name
    token = region.credential.get_token(f"{region.endpoint}/.default").token
    list(client(region, token).resource_groups.list())
    log = (region.path / "requests.jsonl").read_text()
    assert '"/subscriptions/' in log and token not in log
    assert (region.path / "federated.jwt").read_text() not in log
