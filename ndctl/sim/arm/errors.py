"""ArmError: a refusal of the control plane, in ARM's own nesting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ArmError(Exception):
    """status: HTTP status. `details` are error objects ({code, message, target, details}); `info` is additionalInfo."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        target: str = "",
        details: Sequence[Mapping[str, Any]] = (),
        info: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.target = target
        self.details = tuple(details)
        self.info = tuple(info)
        self.headers = dict(headers or {})

    @property
    def error(self) -> dict[str, Any]:
        """The error object, ready to be put under "error" or into another error's details."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.target:
            body["target"] = self.target
        if self.details:
            body["details"] = [dict(one) for one in self.details]
        if self.info:
            body["additionalInfo"] = [dict(one) for one in self.info]
        return body

    @property
    def body(self) -> dict[str, Any]:
        return {"error": self.error}


def not_found(resource_id: str, group: str, kind: str, name: str) -> ArmError:
    return ArmError(
        404,
        "ResourceNotFound",
        f"The Resource '{kind}/{name}' under resource group '{group}' was not found. "
        "For more details please go to https://aka.ms/ARMResourceNotFoundFix",
    )


def group_not_found(group: str) -> ArmError:
    return ArmError(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")


def invalid_parameter(target: str, message: str) -> ArmError:
    return ArmError(400, "InvalidParameter", message, target=target)


def bad_request(message: str) -> ArmError:
    return ArmError(400, "BadRequest", message)
