"""Sign-in: what is tried, and what a person reads when nothing of it works."""

import json
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from azure.identity import DefaultAzureCredential, WorkloadIdentityCredential

from ndctl.azure.clouds import Cloud
from ndctl.azure.credentials import credential_for, redact, sign_in
from ndctl.model.errors import ExitCode, NdctlError

PUBLIC = Cloud("public", "https://management.azure.com", "login.microsoftonline.com", "https://m/.default")
JWT = "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJodHRwczovL21hbmFnZW1lbnQifQ.c2lnbmF0dXJlc2lnbmF0dXJl"


class Refusing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        raise self.error


def test_default_order_has_no_browser() -> None:
    credential = credential_for(PUBLIC, None)
    assert isinstance(credential, DefaultAzureCredential)
    kinds = [type(one).__name__ for one in credential.credentials]
    assert kinds[0] == "EnvironmentCredential"
    assert "AzureCliCredential" in kinds
    assert not [kind for kind in kinds if "Browser" in kind or "Broker" in kind]


def test_identity_file_gives_workload_identity(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("assertion")
    told = {"tenant_id": "t" * 8, "client_id": "c", "token_file": "token"}
    (tmp_path / "identity.json").write_text(json.dumps(told))
    cloud = Cloud("custom", "https://localhost:1", "localhost:1", "s", identity=tmp_path / "identity.json")
    assert isinstance(credential_for(cloud, None), WorkloadIdentityCredential)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"tenant_id": "t", "client_id": "c"}'])
def test_bad_identity_file_is_exit_3(tmp_path: Path, text: str) -> None:
    (tmp_path / "identity.json").write_text(text)
    cloud = Cloud("custom", "https://localhost:1", "localhost:1", "s", identity=tmp_path / "identity.json")
    with pytest.raises(NdctlError) as caught:
        credential_for(cloud, None)
    assert caught.value.exit_code is ExitCode.PERMISSION


def test_missing_token_file_is_exit_3_and_named(tmp_path: Path) -> None:
    told = {"tenant_id": "t", "client_id": "c", "token_file": "nowhere"}
    (tmp_path / "identity.json").write_text(json.dumps(told))
    cloud = Cloud("custom", "https://localhost:1", "localhost:1", "s", identity=tmp_path / "identity.json")
    with pytest.raises(NdctlError, match="nowhere") as caught:
        credential_for(cloud, None)
    assert caught.value.exit_code is ExitCode.PERMISSION


def test_failed_sign_in_says_what_was_tried_and_no_token() -> None:
    message = (
        "DefaultAzureCredential failed to retrieve a token from the included credentials.\nAttempted credentials:\n"
        f"\tEnvironmentCredential: variables are not set {JWT}\n\tAzureCliCredential: Azure CLI not found on path\n"
        "To mitigate this issue, please refer to the troubleshooting guidelines here at https://aka.ms/x."
    )
    with pytest.raises(NdctlError) as caught:
        sign_in(Refusing(ClientAuthenticationError(message=message)), PUBLIC, "contoso")
    error = caught.value
    assert error.exit_code is ExitCode.PERMISSION
    assert "  AzureCliCredential     Azure CLI not found on path" in error.message.splitlines()
    assert "mitigate" not in error.message and JWT not in error.message
    assert "az login --tenant contoso" in error.hint


def test_unreachable_authority_is_exit_4() -> None:
    with pytest.raises(NdctlError, match="connection refused") as caught:
        sign_in(Refusing(ServiceRequestError("[Errno 111] Connection refused")), PUBLIC, None)
    assert caught.value.exit_code is ExitCode.PREFLIGHT


def test_redact_leaves_ids_and_paths() -> None:
    text = "client 11111111-2222-3333-4444-555555555555 reads /run/secrets/token"
    assert redact(text) == text
    assert redact(f"x {JWT} y") == "x [hidden] y"
