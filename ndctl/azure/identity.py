"""Who is signed in, as the token's own claims tell it. The token itself is never shown, kept or written.

Claims: learn.microsoft.com, "Access token claims reference" (oid, tid, idtyp, appid/azp, upn, scp) and, for managed
identities, xms_mirid. They are read and not verified: Azure verifies them, and here they are only told to people.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NAMES = ("upn", "unique_name", "preferred_username")


@dataclass(frozen=True, slots=True)
class Identity:
    """kind: user | service principal | managed identity | unknown; `name` of a user, `application` of the others."""

    kind: str
    object_id: str
    tenant: str
    name: str = ""
    application: str = ""

    @property
    def label(self) -> str:
        """`service principal 2222…` or `user ann@example.com`."""
        called = self.name or self.application or self.object_id
        return f"{self.kind} {called}".strip() if self.kind != "unknown" else called or "an identity without a name"


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a JSON Web Token; {} for anything else, e.g. the opaque token of a private authority."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def identity_of(claims: Mapping[str, Any]) -> Identity | None:
    """None when the claims name nobody."""

    def told(*names: str) -> str:
        return next((str(claims[one]) for one in names if claims.get(one)), "")

    object_id, name, application = told("oid"), told(*_NAMES), told("appid", "azp")
    if not (object_id or name or application):
        return None
    if told("xms_mirid"):
        kind = "managed identity"
    elif told("idtyp").casefold() == "app":
        kind = "service principal"
    elif told("idtyp").casefold() == "user" or name or told("scp"):
        kind = "user"
    else:
        kind = "service principal" if application else "unknown"
    return Identity(kind, object_id, told("tid"), name if kind == "user" else "", application)
