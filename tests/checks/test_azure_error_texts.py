"""Texts that mislead: several errors at once, wrappers that tell nothing, cut texts, and texts that are no error."""

from __future__ import annotations

import json

import pytest

from ndctl.checks.judge import judge_text
from ndctl.checks.texts.azure_error import looks_like, parse
from ndctl.model.status import Action, Status


def told(*errors: dict[str, object]) -> str:
    message = "At least one resource deployment operation failed."
    return json.dumps({"error": {"code": "DeploymentFailed", "message": message, "details": list(errors)}})


CAPACITY = {"code": "AllocationFailed", "message": "We do not have sufficient capacity for the requested VM size."}
DENIED = {"code": "AuthorizationFailed", "message": "The client does not have authorization to perform action 'x'."}


def test_several_errors_are_all_told_and_the_first_gives_the_class() -> None:
    got = parse(told(CAPACITY, DENIED))
    assert [one["class"] for one in got["errors"]] == ["capacity", "permission"]
    assert (got["class"], got["code"], got["innermost_code"]) == ("capacity", "DeploymentFailed", "AllocationFailed")
    assert parse(told(DENIED, CAPACITY))["class"] == "permission"
    findings = judge_text("azure-error", told(CAPACITY, DENIED)).findings
    assert [finding.check for finding in findings] == ["azure.capacity", "azure.permission"]
    assert findings[0].action is Action.WATCH and "may be tried again" in findings[0].message
    assert "; inside DeploymentFailed: " in findings[0].message and "Next: " in findings[0].cause


def test_the_same_error_of_two_instances_is_two_targets() -> None:
    got = parse(told({**CAPACITY, "target": "7"}, {**CAPACITY, "target": "11"}))
    assert got["targets"] == ["7", "11"] and len(got["errors"]) == 1 and got["errors"][0]["times"] == 2


THROTTLED = (
    "compute.VirtualMachineScaleSetsClient#List: Failure responding to request: StatusCode=429 -- Original Error: "
    'autorest/azure: Service returned an error. Status=429 Code="OperationNotAllowed" Message="The server rejected the '
    'request because too many requests have been received for this subscription." Details=[{"code":"TooManyRequests",'
    '"message":"{\\"operationGroup\\":\\"HighCostGetVMScaleSet3Min\\",\\"allowedRequestCount\\":280}",'
    '"target":"HighCostGetVMScaleSet3Min"}] InnerError={"internalErrorCode":"TooManyRequestsReceived"}'
)


def test_throttling_under_another_code() -> None:
    got = parse(THROTTLED)
    assert (got["code"], got["innermost_code"]) == ("OperationNotAllowed", "TooManyRequests")
    assert (got["class"], got["retryable"], len(got["errors"])) == ("throttle", True, 1)
    assert got["targets"] == ["HighCostGetVMScaleSet3Min"] and "too many requests" in got["message"]


def test_details_before_their_own_code() -> None:
    body = {"error": {"details": [{"code": "SubnetIsFull", "message": "no addresses left"}], "code": "SomethingElse",
                      "message": "The request failed."}}  # fmt: skip
    got = parse(json.dumps(body))
    assert (got["innermost_code"], got["class"], got["code"]) == ("SubnetIsFull", "network", "SomethingElse")


@pytest.mark.parametrize(
    ("text", "code", "fault_class", "retryable"),
    [
        ("ERROR: AADSTS700082: The refresh token has expired due to inactivity.", "AADSTS700082", "auth", False),
        ('{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided."}',
         "AADSTS7000215", "auth", False),
        ("AADSTS90033: A transient error has occurred. Please try again.", "AADSTS90033", "auth", True),
        ("ERROR: Please run 'az login' to setup account.", "", "auth", False),
        ("azure.core.exceptions.ClientAuthenticationError: EnvironmentCredential authentication unavailable.",
         "ClientAuthenticationError", "auth", False),
        ("PUT https://management.azure.com/x\nRESPONSE 503: 503 Service Unavailable\nERROR CODE UNAVAILABLE", "503",
         "platform", True),
        ("HTTP/1.1 403 Forbidden\nx-ms-failure-cause: gateway\nServer: Microsoft-HTTPAPI", "403", "permission", False),
        ("Failed to scale node pool in Kubernetes service. Error: Allocation failed. VM(s) with the following "
         "constraints cannot be allocated, because the condition is too restrictive.", "", "capacity", True),
        ('Code="OperationNotAllowed" Message="Cannot scale while an operation is in progress."', "OperationNotAllowed",
         "conflict", True),
        ('{"code":"InvalidParameter","message":"capacityReservationGroup is not allowed with single placement group."}',
         "InvalidParameter", "template", False),
        ("unexpected status 400 (400 Bad Request) with error: RackCountUnknownHere: the azure request failed",
         "RackCountUnknownHere", "template", False),
        ("unexpected status 500 with error: RackCountUnknownHere: the azure request failed", "RackCountUnknownHere",
         "platform", True),
        ("ErrCode_InsufficientVCPUQuota: Insufficient vcpu quota requested 16, remaining 10 for family x.",
         "ErrCode_InsufficientVCPUQuota", "quota", False),
        ('{"code":"NewFamilyQuotaExceededHere","message":"The request failed."}', "NewFamilyQuotaExceededHere", "quota",
         False),
    ],
)  # fmt: skip
def test_one_text_one_meaning(text: str, code: str, fault_class: str, retryable: bool) -> None:
    got = parse(text)
    assert (got["innermost_code"], got["class"], got["retryable"]) == (code, fault_class, retryable)
    assert len(got["errors"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"status":"Failed","error":{"code":"DeploymentFailed","message":"At least one resource deployment op',
        '{"error":{"code":"OperationNotAllowed","mess',
        "The template deployment 'x' is not valid according to the validation procedure.",
        '{"error":{"code":"Conflict","message":"{\\"error\\":{\\"co',
        "StatusCode=409 -- Original Error: autorest/azure: Serv",
    ],
)
def test_an_error_whose_cause_is_cut_off_has_no_class_by_guess(text: str) -> None:
    judgement = judge_text("azure-error", text)
    assert judgement.status is Status.FAIL
    assert (judgement.facts["class"], judgement.facts["retryable"]) == ("unknown", False)
    assert judgement.facts["next_step"]


def test_a_code_cut_in_the_middle_is_told_where_it_can_only_be_one_kind() -> None:
    assert parse('{"error":{"code":"AuthorizationFail')["class"] == "permission"
    assert parse('{"error":{"code":"Overconstr')["class"] == "capacity"
    assert parse('{"error":{"code":"InvalidAut')["class"] == "auth"
    assert parse('{"error":{"code":"Inval')["class"] == "unknown"


HEALTHY = {
    "activity log": '[{"status":{"value":"Succeeded"},"subStatus":{"value":"OK"},"properties":{"statusCode":"OK"}}]',
    "deployment": '{"properties":{"provisioningState":"Succeeded","error":null,"mode":"Incremental"}}',
    "alert rule": '{"name":"QuotaExceeded","type":"Microsoft.Insights/metricAlerts","properties":'
    '{"description":"fires on QuotaExceeded","criteria":{"metricName":"Throttled requests"}}}',
    "policy": '{"properties":{"displayName":"Deny public IP","policyRule":{"then":{"effect":"deny"}}}}',
    "template": '{"resources":[{"type":"Microsoft.Compute/virtualMachineScaleSets","sku":{"capacity":18},"properties":'
    '{"singlePlacementGroup":false}}]}',
    "sizes": '{"restrictions":[{"type":"Location","reasonCode":"NotAvailableForSubscription"}],"capabilities":'
    '[{"name":"CpuArchitectureType","value":"x64"},{"name":"HyperVGenerations","value":"V2"}]}',
    "instance view": '{"statuses":[{"code":"ProvisioningState/succeeded","level":"Info","message":"Guest Agent is '
    'running"},{"code":"PowerState/running","displayStatus":"VM running"}]}',
    "terms": '{"accepted":true,"licenseTextLink":"https://x","marketplaceTermsLink":"y","plan":"p"}',
    "locks": '[{"level":"CanNotDelete","name":"keep","type":"Microsoft.Authorization/locks"}]',
    "usage": "Total Regional vCPUs  18  100\nStandard NDISRGB300V6 Family vCPUs  2304  147456",
    "PowerShell": "ResourceGroupName : rg\nProvisioningState : Succeeded\nStatusCode : OK",
    "metrics": '{"value":[{"name":{"value":"ThrottledRequests"},"timeseries":[],"errorCode":"Success"}]}',
}
OF_OTHERS = {
    "another cloud, JSON": '{"error":{"code":403,"message":"The caller does not have permission","status":"DENIED"}}',
    "another cloud, CLI": "An error occurred (UnauthorizedOperation) when calling the RunInstances operation: You are "
    "not authorized to perform this operation.",
    "another cloud, capacity": "An error occurred (InsufficientInstanceCapacity) when calling the RunInstances "
    "operation: We currently do not have sufficient p4d.24xlarge capacity",
    "kubectl": 'Error from server (Forbidden): pods is forbidden: User "x" cannot list resource "pods"',
    "Python": "pydantic_core._pydantic_core.ValidationError: 1 validation error for X",
    "a proxy": "502 Bad Gateway nginx/1.18",
    "NCCL": "ncclSystemError: System call failed or device error. internal error occurred",
    "prose": "The quota of patience was exceeded, and another operation followed.",
    "empty": "{}",
}


@pytest.mark.parametrize("name", [*HEALTHY, *OF_OTHERS])
def test_what_is_no_error_of_azure_is_unknown(name: str) -> None:
    text = {**HEALTHY, **OF_OTHERS}[name]
    judgement = judge_text("azure-error", text)
    assert (judgement.status, judgement.facts["class"]) == (Status.UNKNOWN, None)
    assert looks_like(text) == 0


def test_an_error_in_the_middle_of_a_long_log() -> None:
    line = "2026-04-11T04:43:03Z rack64-n03 systemd[1]: Started Session 4 of user azureuser.\n"
    got = parse(line * 100_000 + told(CAPACITY) + "\n" + line * 10_000)
    assert (got["class"], got["innermost_code"]) == ("capacity", "AllocationFailed")
