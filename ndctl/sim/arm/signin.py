"""The sign-in authority: what msal asks for a workload identity, and the bearer tokens it is given.

Tokens are HS256 JSON Web Tokens of the region's own; real ones are signed with keys that a client does not check
either. A token is bound to its audience and ends after Settings.token_s.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.settings import OBJECT, Settings

_AUDIENCES = ("https://management.azure.com", "https://management.core.windows.net")
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class SignIn:
    """`secret` signs the tokens; `federated` is the text of the federated token file."""

    def __init__(
        self, settings: Settings, secret: bytes, federated: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._secret = secret
        self._federated = federated.strip()
        self._clock = clock
        self._issued: dict[str, float] = {}  # uti -> when; of tokens from before a restart nothing is known

    def openid_configuration(self, tenant: str) -> dict[str, Any]:
        base = f"{self._settings.endpoint}/{tenant}"
        return {
            "token_endpoint": f"{base}/oauth2/v2.0/token",
            "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt", "client_secret_basic"],
            "jwks_uri": f"{base}/discovery/v2.0/keys",
            "response_types_supported": ["code", "id_token", "code id_token", "id_token token"],
            "scopes_supported": ["openid", "profile", "email", "offline_access"],
            "subject_types_supported": ["pairwise"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "issuer": f"{self._settings.endpoint}/{self._settings.tenant}/v2.0",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
            "end_session_endpoint": f"{base}/oauth2/v2.0/logout",
        }

    def token(self, tenant: str, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """(status, body) of the token endpoint."""
        if tenant.lower() != self._settings.tenant:
            return _refused(400, "invalid_tenant", 90002, f"Tenant '{tenant}' not found.")
        if form.get("client_id", "").lower() != self._settings.client:
            return _refused(
                400,
                "unauthorized_client",
                700016,
                f"Application with identifier '{form.get('client_id', '')}' was not found in the directory.",
            )
        if form.get("grant_type") != "client_credentials" or form.get("client_assertion_type") != _ASSERTION:
            return _refused(401, "invalid_client", 7000218, "The request body must contain 'client_assertion'.")
        if not hmac.compare_digest(form.get("client_assertion", "").encode(), self._federated.encode()):
            return _refused(401, "invalid_client", 700027, "The client assertion failed signature validation.")
        audience = form.get("scope", "").split(" ")[0].removesuffix("/.default")
        if not audience:
            return _refused(400, "invalid_request", 900144, "The request body must contain 'scope'.")
        self._issued[uti := uuid.uuid4().hex] = self._clock()
        now = int(self._clock())
        claims = {
            "aud": audience,
            "iss": f"{self._settings.endpoint}/{self._settings.tenant}/",
            "iat": now,
            "nbf": now,
            "exp": now + self._settings.token_s,
            "appid": self._settings.client,
            "idtyp": "app",
            "oid": OBJECT,
            "sub": OBJECT,
            "tid": self._settings.tenant,
            "uti": uti,
        }
        lifetime = self._settings.token_s
        return 200, {
            "token_type": "Bearer",
            "expires_in": lifetime,
            "ext_expires_in": lifetime,
            "access_token": encode(claims, self._secret),
        }

    def check(self, header: str, refused_before: float = 0.0) -> None:
        """ArmError 401 unless the Authorization header holds a token of ours for this endpoint that is still good.

        refused_before: tokens handed out before this time count as expired.
        """
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise self._unauthorized(
                "AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing.", "invalid_token"
            )
        claims = decode(token, self._secret)
        if claims is None:
            raise self._unauthorized(
                "InvalidAuthenticationToken",
                "The access token is invalid: its signature does not fit.",
                "invalid_token",
            )
        if claims["exp"] <= self._clock() or self._issued.get(claims.get("uti", ""), 0.0) < refused_before:
            raise self._unauthorized(
                "ExpiredAuthenticationToken",
                f"The access token expiry UTC time '{claims['exp']}' is earlier than current UTC time.",
                "invalid_token",
            )
        if claims["aud"].rstrip("/") not in (self._settings.endpoint, *_AUDIENCES):
            raise self._unauthorized(
                "InvalidAuthenticationTokenAudience",
                f"The access token has been obtained for wrong audience or resource '{claims['aud']}'. It should "
                f"exactly match with one of the allowed audiences '{self._settings.endpoint}', '{_AUDIENCES[0]}'.",
                "invalid_token",
            )

    def _unauthorized(self, code: str, message: str, error: str) -> ArmError:
        authority = f"{self._settings.endpoint}/{self._settings.tenant}"
        challenge = f'Bearer authorization_uri="{authority}", error="{error}", error_description="{message}"'
        return ArmError(401, code, message, headers={"WWW-Authenticate": challenge})


def encode(claims: Mapping[str, Any], secret: bytes) -> str:
    head = _part(json.dumps({"typ": "JWT", "alg": "HS256"}).encode())
    body = _part(json.dumps(dict(claims)).encode())
    return f"{head}.{body}.{_signature(f'{head}.{body}', secret)}"


def decode(token: str, secret: bytes) -> dict[str, Any] | None:
    """The claims of a token of ours; None for any other text."""
    signed, _, signature = token.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _signature(signed, secret).encode()):
        return None
    body = signed.partition(".")[2]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def _refused(status: int, error: str, number: int, text: str) -> tuple[int, dict[str, Any]]:
    return status, {"error": error, "error_description": f"AADSTS{number}: {text}", "error_codes": [number]}


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _signature(text: str, secret: bytes) -> str:
    return _part(hmac.new(secret, text.encode(), hashlib.sha256).digest())
