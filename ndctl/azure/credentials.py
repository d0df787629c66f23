"""Who one is: azure-identity only, never a browser window, and a sign-in failure that says what to do.

Named clouds use azure-identity's DefaultAzureCredential, which asks in this order and takes the first that answers:
environment variables (AZURE_CLIENT_ID, AZURE_TENANT_ID and a secret or certificate) - workload identity
(AZURE_FEDERATED_TOKEN_FILE) - managed identity - Visual Studio Code - Azure CLI - Azure PowerShell - Azure Developer
CLI. The interactive browser and the Windows broker are left out: ndctl also runs where nobody watches.
A custom endpoint with `cloud.identity` uses workload identity with what that file names.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from azure.core.credentials import AccessToken, AccessTokenInfo, TokenCredential, TokenRequestOptions
from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.identity import DefaultAzureCredential, WorkloadIdentityCredential

from ndctl.azure.clouds import Cloud
from ndctl.azure.faults import endpoint_unreachable
from ndctl.azure.identity import Identity, claims_of, identity_of
from ndctl.model.errors import ExitCode, NdctlError

SIGN_IN_TIMEOUT_S = 15
_TRANSPORT = {"connection_timeout": SIGN_IN_TIMEOUT_S, "read_timeout": SIGN_IN_TIMEOUT_S, "retry_total": 1}
# Anything long and opaque in a sign-in error may be a token or an assertion.
_OPAQUE = re.compile(r"[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]*|[A-Za-z0-9+/=_\-]{80,}")
_ATTEMPT = re.compile(r"^\s*(\w+Credential): (.+)$")


class RenewableCredential:
    """A credential that can be made to forget its tokens: when Azure refuses one that it still believes in.

    That happens when the clock of this machine was set, when it slept, or when a token was revoked. Shared by threads.
    tenant: the directory that every token is asked of; the SDK's clients name none by themselves.
    """

    def __init__(self, make: Callable[[], Any], tenant: str | None = None) -> None:
        self._make = make
        self._tenant = {"tenant_id": tenant} if tenant else {}
        self._inner = make()
        self._given = ""
        self._lock = threading.Lock()

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        token: AccessToken = self._inner.get_token(*scopes, **{**self._tenant, **options})
        self._given = token.token
        return token

    def get_token_info(self, *scopes: str, options: TokenRequestOptions | None = None) -> AccessTokenInfo:
        asked: Any = {**self._tenant, **(options or {})}
        token: AccessTokenInfo = self._inner.get_token_info(*scopes, options=asked)
        self._given = token.token
        return token

    def renew(self, refused: str) -> None:
        """Forget the token that was refused; a newer one, fetched by another thread meanwhile, is kept."""
        with self._lock:
            if refused == self._given:
                self._inner, self._given = self._make(), ""

    def who(self) -> str:
        """Name or application id in the last token, for records that people read: it is not verified. "" if unknown."""
        told = self.identity()
        return (told.name or told.application or told.object_id) if told else ""

    def identity(self) -> Identity | None:
        """Who the last token says it is for. None before the first one, and for a token that does not tell."""
        return identity_of(claims_of(self._given))

    def close(self) -> None:
        close = getattr(self._inner, "close", None)
        if callable(close):
            close()


def credential_for(cloud: Cloud, tenant: str | None) -> TokenCredential:
    """The credential of one inventory; nothing is asked of the network yet."""
    # azure-identity logs every failed attempt of the chain as a warning; the error that is raised tells all of it.
    logging.getLogger("azure.identity").setLevel(logging.CRITICAL)
    options: dict[str, Any] = dict(_TRANSPORT)
    if cloud.custom:
        # A private authority is not in Microsoft's list of authorities, so looking it up there can only fail.
        options |= {"connection_verify": cloud.verify, "disable_instance_discovery": True}
    if cloud.identity:
        return _workload_identity(cloud, cloud.identity, options)
    authority = f"https://{cloud.authority}"
    chain = DefaultAzureCredential(
        authority=authority,
        exclude_interactive_browser_credential=True,
        exclude_shared_token_cache_credential=True,
        exclude_broker_credential=True,
        process_timeout=SIGN_IN_TIMEOUT_S,
        **({"workload_identity_tenant_id": tenant, "additionally_allowed_tenants": [tenant]} if tenant else {}),
        **options,
    )
    if any(isinstance(one, WorkloadIdentityCredential) for one in getattr(chain, "credentials", ())):
        # azure-identity (1.25 to 1.27) does not hand the authority on to this one of the chain, which then asks
        # public Azure's, whatever the cloud.
        allowed: dict[str, Any] = {"additionally_allowed_tenants": [tenant]} if tenant else {}
        own = WorkloadIdentityCredential(tenant_id=tenant, authority=authority, **allowed, **options)
        chain.credentials = tuple(
            own if isinstance(one, WorkloadIdentityCredential) else one for one in chain.credentials
        )
    return chain


def sign_in(credential: TokenCredential, cloud: Cloud, tenant: str | None) -> None:
    """Fetch one token, so that whoever is not signed in learns it before anything else happens.

    Raises NdctlError: exit 3 when nobody is signed in, exit 4 when the authority cannot be reached.
    """
    try:
        if tenant_of(cloud, tenant):
            credential.get_token(cloud.scope, tenant_id=tenant)
        else:
            credential.get_token(cloud.scope)
    except ClientAuthenticationError as error:
        raise NdctlError(
            "azure.sign-in",
            f"not signed in to {cloud.authority}: {_what_was_tried(str(error.message or error))}",
            hint=_sign_in_hint(cloud, tenant),
            exit_code=ExitCode.PERMISSION,
        ) from None
    except (ServiceRequestError, ServiceResponseError) as error:
        raise endpoint_unreachable(f"https://{cloud.authority}", "the sign-in authority", error) from None
    except (AzureError, OSError, ValueError) as error:
        raise NdctlError(
            "azure.sign-in",
            f"cannot sign in to {cloud.authority}: {redact(str(error))}",
            hint=_sign_in_hint(cloud, tenant),
            exit_code=ExitCode.PERMISSION,
        ) from None


def tenant_of(cloud: Cloud, tenant: str | None) -> str | None:
    """The tenant to name with every token. An identity file names its own."""
    return None if cloud.identity else tenant


def redact(text: str) -> str:
    """The text without anything that looks like a token."""
    return _OPAQUE.sub("[hidden]", text)


def _workload_identity(cloud: Cloud, file: Path, options: dict[str, Any]) -> TokenCredential:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        tenant_id, client_id, token_file = (str(told[key]) for key in ("tenant_id", "client_id", "token_file"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NdctlError(
            "azure.identity-file",
            f"{file} is not an identity file ({type(error).__name__}: {error})",
            hint="it holds {tenant_id, client_id, token_file} as JSON",
            exit_code=ExitCode.PERMISSION,
        ) from None
    token_path = file.parent / token_file
    if not token_path.is_file():
        raise NdctlError(
            "azure.token-file",
            f"{file} names the token file {token_path}, which does not exist",
            hint="renew the workload identity's token file; for the embedded region: ndctl sim up",
            exit_code=ExitCode.PERMISSION,
        )
    return WorkloadIdentityCredential(
        tenant_id=tenant_id,
        client_id=client_id,
        token_file_path=str(token_path),
        authority=f"https://{cloud.authority}",
        **options,
    )


def _what_was_tried(message: str) -> str:
    """azure-identity's list of attempts, one short line each, without tokens; another message as it is."""
    message = redact(message).split("To mitigate this issue")[0]
    tried = [match.groups() for line in message.splitlines() if (match := _ATTEMPT.match(line))]
    if not tried:
        return " ".join(message.split())
    width = max(len(kind) for kind, _ in tried)
    lines = []
    for kind, said in tried:
        reason = said.removeprefix(f"{kind} ").split(". ")[0].rstrip(".")
        lines.append(f"  {kind.ljust(width)}  {reason}")
    return "\n".join(["tried, in this order:", *lines])


def _sign_in_hint(cloud: Cloud, tenant: str | None) -> str:
    if cloud.identity:
        return f"renew the token file that {cloud.identity} names; for the embedded region: ndctl sim up"
    at = {"usgov": "az cloud set --name AzureUSGovernment && ", "china": "az cloud set --name AzureChinaCloud && "}
    login = f"{at.get(cloud.name, '')}az login{f' --tenant {tenant}' if tenant else ''}"
    return f"{login}; in a pipeline: workload identity (AZURE_CLIENT_ID, AZURE_TENANT_ID, AZURE_FEDERATED_TOKEN_FILE)"
