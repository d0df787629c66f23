"""Errors of Azure, unwrapped to their innermost cause and given a meaning.

Azure nests: a deployment's error holds the resource's error in `details`, in `innererror`, in a `statusMessage`, or as
JSON text inside a message. What a person needs is the innermost one, its class and one next step.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)

from ndctl.azure.policy_words import in_words, next_step, policies_in
from ndctl.checks.azure_errors import FaultClass, classify
from ndctl.checks.azure_unwrap import Cause, causes, innermost
from ndctl.model.errors import ExitCode, NdctlError

DEADLINE_PASSED = "DeadlinePassed"  # a code of our own


@dataclass(frozen=True, slots=True)
class AzureFault:
    """One failure of Azure.

    code, message:                     the outermost, as Azure sent it
    innermost_code, innermost_message: the cause
    fault_class:                       auth | permission | quota | capacity | ... | unknown
    retryable:                         the same request may succeed later, unchanged
    target:                            what Azure says it is about (an instance id, a property), "" if not told
    """

    code: str
    message: str
    innermost_code: str
    innermost_message: str
    fault_class: FaultClass
    retryable: bool
    meaning: str
    next_step: str
    target: str = ""
    status: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The published form: the class under the key `class`."""
        return {
            "code": self.code,
            "message": self.message,
            "innermost_code": self.innermost_code,
            "innermost_message": self.innermost_message,
            "class": self.fault_class.value,
            "retryable": self.retryable,
            "meaning": self.meaning,
            "next_step": self.next_step,
            "target": self.target,
        }

    @property
    def summary(self) -> str:
        """`AllocationFailed (capacity, may be tried again)`"""
        if self.fault_class is FaultClass.UNKNOWN and not self.retryable:  # then nobody knows whether it would help
            return f"{self.innermost_code or self.code or 'error'} (unknown to ndctl)"
        again = "may be tried again" if self.retryable else "trying again will not help"
        return f"{self.innermost_code or self.code or 'error'} ({self.fault_class.value}, {again})"

    @property
    def exit_code(self) -> ExitCode | None:
        """3 for whatever the identity is to blame for; None: the verb decides."""
        blamed = self.fault_class in (FaultClass.AUTH, FaultClass.PERMISSION)
        return ExitCode.PERMISSION if blamed else None


class FaultError(AzureError):
    """A failure that Azure told in an answer that is no HTTP error, e.g. a what-if that ended in "Failed"."""

    def __init__(self, fault: AzureFault) -> None:
        super().__init__(fault.innermost_message or fault.innermost_code)
        self.fault = fault


def fault_from_body(body: Any, *, status: int | None = None, fallback: str = "") -> AzureFault:
    """The fault in an error body (dict, list or text) of any nesting."""
    found = list(causes(body))
    outer = found[0] if found else Cause("", fallback)
    code, message, target = innermost(found) or Cause("", fallback)
    entry = classify(code, message)
    if entry.fault_class is FaultClass.UNKNOWN and status in (401, 403, 429):
        code_for = {401: "Unauthorized", 403: "AuthorizationFailed", 429: "TooManyRequests"}
        entry = classify(code_for[status], "")
    policies = policies_in(message) if entry.fault_class is FaultClass.POLICY else ()
    return AzureFault(
        code=outer.code or code,
        message=_one_paragraph(in_words(outer.message or message)),
        innermost_code=code,
        innermost_message=_one_paragraph(in_words(message or fallback)),
        fault_class=entry.fault_class,
        retryable=entry.retryable,
        meaning=entry.meaning,
        next_step=next_step(policies) if policies else entry.next,
        target=target,
        status=status,
    )


def fault_from_exception(error: AzureError) -> AzureFault:
    """The fault behind what an SDK (or `whatif`) raised."""
    if isinstance(error, FaultError):
        return error.fault
    if isinstance(error, HttpResponseError) and not isinstance(error, ClientAuthenticationError):
        return fault_from_body(_body_of(error), status=error.status_code, fallback=str(error.message or error))
    if isinstance(error, ClientAuthenticationError):
        body = _body_of(error) or {"code": "Unauthorized", "message": str(error.message or error)}
        return fault_from_body(body, status=error.status_code or 401, fallback=str(error.message or error))
    if isinstance(error, (ServiceRequestError, ServiceResponseError)):
        reason = _connection_reason(str(error))
        return AzureFault(
            code=type(error).__name__,
            message=reason,
            innermost_code=type(error).__name__,
            innermost_message=reason,
            fault_class=FaultClass.NETWORK,
            retryable=True,
            meaning="Azure Resource Manager cannot be reached from here.",
            next_step="Check the endpoint, proxy and CA, then run the same command again.",
        )
    return fault_from_body(str(error), fallback=str(error))


def fault_from_deadline(error: NdctlError) -> AzureFault:
    """An operation that had no end in time, as the fault of what it was about."""
    return AzureFault(
        code=DEADLINE_PASSED,
        message=error.message,
        innermost_code=DEADLINE_PASSED,
        innermost_message=error.message,
        fault_class=FaultClass.PLATFORM,
        retryable=True,
        meaning="Azure did not end a long-running operation in the time it was given, and goes on with it.",
        next_step=f"{error.hint[:1].upper()}{error.hint[1:]}.",
    )


def error_from_fault(fault: AzureFault, doing: str, exit_code: ExitCode = ExitCode.PREFLIGHT) -> NdctlError:
    """The NdctlError that says what was being done, the innermost cause and the next step.

    `exit_code` is used unless the identity is to blame (then 3).
    """
    text = fault.innermost_message or fault.message
    wrapped = f" (inside {fault.code})" if fault.code and fault.code != fault.innermost_code else ""
    return NdctlError(
        f"azure.{fault.fault_class.value}",
        f"{doing}: {fault.innermost_code or fault.code}{wrapped}: {text}",
        hint=fault.next_step,
        exit_code=fault.exit_code or exit_code,
    )


def endpoint_unreachable(endpoint: str, what: str, error: Exception) -> NdctlError:
    """Nobody answers at `endpoint`, or not with a certificate that is trusted. Exit 4: nothing was changed."""
    reason = _connection_reason(str(error))
    trusted = "certificate" not in reason
    hint = "check the network and proxy; for the embedded region: ndctl sim status"
    if not trusted:
        hint = "check cloud.ca in the inventory: it must be the CA that signs this endpoint"
    return NdctlError("azure.unreachable", f"{what} {endpoint}: {reason}", hint=hint, exit_code=ExitCode.PREFLIGHT)


def _connection_reason(text: str) -> str:
    known = (
        ("CERTIFICATE_VERIFY_FAILED", "its TLS certificate is not trusted"),
        ("certificate verify failed", "its TLS certificate is not trusted"),
        ("Connection refused", "connection refused"),
        ("Name or service not known", "its name cannot be resolved"),
        ("nodename nor servname", "its name cannot be resolved"),
        ("Failed to resolve", "its name cannot be resolved"),
        ("timed out", "no answer in time"),
        ("Connection reset", "the connection was reset"),
        ("Remote end closed", "the connection was closed without an answer"),
    )
    return next((said for part, said in known if part in text), f"cannot be reached: {_one_paragraph(text)[:300]}")


def _body_of(error: HttpResponseError) -> Any:
    try:
        text = error.response.text() if error.response is not None else ""
    except Exception:  # the SDKs raise many kinds when a body was streamed or consumed already; error.error remains
        text = ""
    if text:
        try:
            return json.loads(text, strict=False)
        except ValueError:
            return text
    return _odata(error.error) if error.error is not None else None


def _odata(value: Any) -> dict[str, Any]:
    return {
        "code": getattr(value, "code", None) or "",
        "message": getattr(value, "message", None) or "",
        "target": getattr(value, "target", None) or "",
        "details": [_odata(one) for one in getattr(value, "details", None) or []],
    }


def _one_paragraph(text: str) -> str:
    return " ".join(text.replace("\\r", " ").replace("\\n", " ").split())
