"""Requests and answers of the control plane, free of any web framework."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ndctl.sim.arm.catalogue import TYPES
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.region import Body

PAGE = 100


@dataclass(frozen=True, slots=True)
class Request:
    """`parts`: the path's segments as they came; `query`: the last value of each key, keys in small letters."""

    method: str
    path: str
    parts: tuple[str, ...]
    query: Mapping[str, str]
    text: bytes = b""

    @property
    def version(self) -> str:
        return self.query.get("api-version", "")

    @property
    def lower(self) -> tuple[str, ...]:
        return tuple(part.lower() for part in self.parts)

    def body(self) -> Any:
        """The JSON body; {} when there is none."""
        if not self.text:
            return {}
        try:
            return json.loads(self.text)
        except ValueError as error:
            raise ArmError(
                400,
                "InvalidRequestContent",
                f"The request content was invalid and could not be deserialized: '{error}'.",
            ) from None

    def object(self) -> Body:
        found = self.body()
        if not isinstance(found, dict):
            raise ArmError(400, "InvalidRequestContent", "The request content was invalid: a JSON object is expected.")
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` None: no content; text stays text, anything else becomes JSON."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def page(request: Request, endpoint: str, items: Iterable[Body]) -> Answer:
    """A list, in pages that the client has to follow."""
    found = list(items)
    token = request.query.get("$skiptoken", "0")
    start = int(token) if token.isdigit() else 0
    size = PAGE
    if request.query.get("$top", "").isdigit():
        size = max(1, min(PAGE, int(request.query["$top"])))
    body: Body = {"value": found[start : start + size]}
    if start + size < len(found):
        kept = {key: value for key, value in request.query.items() if key != "$skiptoken"}
        pairs = "&".join(f"{quote(k)}={quote(v)}" for k, v in {**kept, "$skiptoken": str(start + size)}.items())
        body["nextLink"] = f"{endpoint}{quote(request.path)}?{pairs}"
    return Answer(200, body)


def need_version(request: Request, type_name: str) -> None:
    """ArmError when the request's api-version is not one in which the region knows the type."""
    known = TYPES.get(type_name.lower())
    if known is None:
        namespace, _, kind = type_name.partition("/")
        raise ArmError(
            404,
            "InvalidResourceType",
            f"The resource type '{kind}' could not be found in the namespace '{namespace}' for api version "
            f"'{request.version}'.",
        )
    if request.version not in known.versions:
        raise ArmError(
            400,
            "InvalidApiVersionParameter"
            if type_name.startswith("Microsoft.Resources")
            else "NoRegisteredProviderFound",
            f"The api-version '{request.version}' is invalid for type '{known.name}'. The supported versions are "
            f"'{','.join(reversed(known.versions))}'.",
        )


def no_such_path(request: Request) -> ArmError:
    return ArmError(
        404, "ResourceNotFound", f"The path '{request.path}' is not known to this region ({request.method})."
    )
