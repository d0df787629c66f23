"""What the SDKs raise becomes a fault with a class and a next step."""

import json
from typing import Any

import pytest
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
)
from azure.core.rest import HttpRequest
from azure.core.rest._requests_basic import RestRequestsTransportResponse
from requests import Response

from ndctl.azure.faults import FaultError, error_from_fault, fault_from_body, fault_from_exception
from ndctl.checks.azure_errors import FaultClass
from ndctl.model.errors import ExitCode


def http_error(status: int, body: Any, kind: type[HttpResponseError] = HttpResponseError) -> HttpResponseError:
    raw = Response()
    raw.status_code = status
    raw._content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    raw._content_consumed = True
    raw.headers["Content-Type"] = "application/json"
    request = HttpRequest("PUT", "https://arm.example/x")
    response = RestRequestsTransportResponse(request=request, internal_response=raw)
    response.read()
    return kind(message="it failed", response=response)


def test_nested_capacity_error() -> None:
    body = {
        "error": {
            "code": "DeploymentFailed",
            "message": "At least one resource deployment operation failed.",
            "details": [{"code": "AllocationFailed", "message": "We do not have sufficient capacity", "target": "7"}],
        }
    }
    fault = fault_from_exception(http_error(409, body))
    assert (fault.code, fault.innermost_code, fault.fault_class) == (
        "DeploymentFailed",
        "AllocationFailed",
        FaultClass.CAPACITY,
    )
    assert fault.retryable and fault.target == "7" and fault.exit_code is None
    assert fault.summary == "AllocationFailed (capacity, may be tried again)"
    assert fault.as_dict()["class"] == "capacity"


@pytest.mark.parametrize(
    ("status", "body", "wanted"),
    [
        (403, {"error": {"code": "AuthorizationFailed", "message": "no"}}, FaultClass.PERMISSION),
        (403, "<html>proxy says no</html>", FaultClass.PERMISSION),
        (401, {"error": {"code": "InvalidAuthenticationToken", "message": "expired"}}, FaultClass.AUTH),
        (401, "", FaultClass.AUTH),
    ],
)
def test_what_the_identity_is_to_blame_for_is_exit_3(status: int, body: Any, wanted: FaultClass) -> None:
    fault = fault_from_exception(http_error(status, body, ClientAuthenticationError))
    assert fault.fault_class is wanted
    error = error_from_fault(fault, "deploying", ExitCode.DEPLOY_FAILED)
    assert error.exit_code is ExitCode.PERMISSION and error.hint


def test_other_faults_keep_the_verbs_exit_code() -> None:
    fault = fault_from_body({"error": {"code": "QuotaExceeded", "message": "limit"}})
    error = error_from_fault(fault, "what-if of x", ExitCode.PREFLIGHT)
    assert error.exit_code is ExitCode.PREFLIGHT
    assert error.message == "what-if of x: QuotaExceeded: limit"


def test_throttled_without_a_body() -> None:
    assert fault_from_exception(http_error(429, "")).fault_class is FaultClass.THROTTLE


def test_no_connection_is_the_network() -> None:
    fault = fault_from_exception(ServiceRequestError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"))
    assert fault.fault_class is FaultClass.NETWORK
    assert fault.innermost_message == "its TLS certificate is not trusted"


def test_a_told_failure_keeps_its_fault() -> None:
    fault = fault_from_body({"code": "InvalidTemplate", "message": "no such function"})
    assert fault_from_exception(FaultError(fault)) is fault


def test_anything_else_of_azure_core_is_unknown_but_said() -> None:
    fault = fault_from_exception(AzureError("strange"))
    assert fault.fault_class is FaultClass.UNKNOWN and fault.innermost_message == "strange"


def test_of_an_error_nobody_knows_it_is_not_said_whether_trying_again_helps() -> None:
    assert fault_from_body({"code": "Weird", "message": "x"}).summary == "Weird (unknown to ndctl)"
    assert fault_from_body({"code": "QuotaExceeded", "message": "x"}).summary.endswith("trying again will not help)")
