"""Captured errors of Azure in the wrappers people paste them in, each read as a careful expert would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ndctl.checks.judge import judge_bytes
from ndctl.model.status import Status

CASES = Path(__file__).parent.parent / "captures" / "azure"

# case: innermost code, class, whether trying again helps, entry of the table, errors, targets
READ: dict[str, tuple[str, str, bool, str, int, list[str]]] = {
    "01": ("QuotaExceeded", "quota", False, "quota-operation-not-allowed", 1, []),
    "02": ("OverconstrainedZonalAllocationRequest", "capacity", True, "overconstrained", 1, ["11"]),
    "03": ("OverconstrainedAllocationRequest", "capacity", True, "overconstrained", 1, ["0"]),
    "04": ("QuotaExceeded", "quota", False, "quota-operation-not-allowed", 1, []),
    "05": ("Compute.OverconstrainedAllocationRequest", "capacity", True, "overconstrained", 1, []),
    "06": ("SkuNotAvailable", "capacity", False, "sku-not-available", 1, []),
    "07": ("", "unknown", False, "az-hides-the-error", 1, []),
    "08": ("LinkedAuthorizationFailed", "permission", False, "authorization-failed", 1, []),
    "09": ("MarketplacePurchaseEligibilityFailed", "image", False, "image-terms", 1, []),
    "10": ("OperationNotAllowed", "quota", False, "quota-operation-not-allowed", 1, []),
    "11": ("ResourceReadFailed", "throttle", True, "read-throttled", 1, ["aks-"]),
    "13": ("LinkedAuthorizationFailed", "permission", False, "authorization-failed", 1, []),
    "15": ("AllocationFailed", "capacity", True, "allocation-failed", 1, []),
    "16": ("VMExtensionProvisioningError", "template", False, "vm-extension-script", 1, []),
    "17": ("VMArtifactRepositoryInternalError", "platform", True, "platform", 1, []),
    "18": ("AllocationFailed", "capacity", True, "allocation-failed", 1, []),
    "19": ("ZonalAllocationFailed", "capacity", True, "zonal-allocation-failed", 1, []),
    "20": ("SkuNotAvailable", "capacity", False, "sku-capacity-restriction", 1, []),
    "21": ("", "capacity", False, "sku-not-available", 1, []),
    "22": ("OperationNotAllowed", "quota", False, "quota-operation-not-allowed", 1, []),
    "23": ("OperationNotAllowed", "quota", False, "quota-operation-not-allowed", 1, []),
    "24": ("RequestDisallowedByPolicy", "policy", False, "policy", 1, []),
    "25": ("InvalidTemplateDeployment", "capacity", False, "sku-not-available", 2, []),
    "26": ("AuthorizationFailed", "permission", False, "authorization-failed", 1, []),
    "27": ("", "permission", False, "authorization-failed", 1, []),
    "28": ("AuthorizationFailed", "permission", False, "authorization-failed", 1, []),
    "29": ("ReadOnlyDisabledSubscription", "policy", False, "subscription-disabled", 1, []),
    "30": ("VMExtensionProvisioningError", "platform", True, "vm-extension-busy", 1, []),
    "31": ("VMExtensionProvisioningError", "template", False, "vm-extension-script", 1, []),
    "32": ("MissingSubscriptionRegistration", "template", False, "provider-not-registered", 1, ["Microsoft.KeyVault"]),
    "33": ("MissingSubscriptionRegistration", "template", False, "provider-not-registered", 1, ["Microsoft.Sql"]),
    "34": ("PlatformImageNotFound", "image", False, "image-not-found", 1, []),
    "35": ("AnotherOperationInProgress", "conflict", True, "conflict", 1, []),
    "36": ("", "conflict", True, "conflict", 1, []),
    "43": ("429", "throttle", True, "throttled", 1, []),
    "44": ("InvalidParameter", "template", False, "template", 1, ["constrainedMaximumCapacity"]),
    "45": ("BadRequest", "image", False, "image-generation", 1, []),
    "46": ("OverconstrainedAllocationRequest", "capacity", True, "overconstrained", 1, []),
    "47": ("BadRequest", "image", False, "image-generation", 1, []),
    "48": ("BadRequest", "image", False, "image-generation", 1, []),
    "49": ("", "template", False, "single-placement-group", 1, []),
    "50": ("BadRequest", "image", False, "image-terms", 1, []),
    "51": ("", "image", False, "image-terms", 1, []),
    "52": ("OperationNotAllowed", "quota", False, "quota-operation-not-allowed", 1, []),
}
NO_ERROR = ("12", "14", "37", "38", "39", "40", "41", "42", "53", "54")
OUTERMOST = {
    "01": "InvalidTemplateDeployment",
    "02": "ResourceOperationFailure",
    "04": "InvalidTemplateDeployment",
    "15": "ResourceDeploymentFailure",
    "16": "ResourceDeploymentFailure",
    "17": "ResourceDeploymentFailure",
    "25": "MultipleErrorsOccurred",
    "34": "ResourceDeploymentFailure",
    "45": "DeploymentFailed",
    "46": "ResourceDeploymentFailure",
    "50": "MarketplacePurchaseEligibilityFailed",
}
WORDS = {
    "15": "Please try reducing the VM size or number of VMs, retry later",
    "21": "is currently not available in location 'West Europe'",
    "22": "Total Regional Cores quota",
    "23": "Maximum allowed: 20, Current in use: 20",
    "30": "locked by another process",
    "48": "cannot boot Hypervisor Generation '1'. If this was a Create operation",
    "50": "Legal terms have not been accepted",
    "52": "approved standardDASv5Family Cores quota",
}


def case(number: str) -> bytes:
    (file,) = CASES.glob(f"{number}-*")
    return file.read_bytes()


def facts(number: str) -> dict[str, Any]:
    return dict(judge_bytes("azure-error", case(number)).facts)


def test_every_capture_has_a_reading() -> None:
    assert {file.name[:2] for file in CASES.iterdir()} == {*READ, *NO_ERROR}


@pytest.mark.parametrize("number", READ)
def test_an_error_is_read_as_an_expert_does(number: str) -> None:
    judgement = judge_bytes("azure-error", case(number))
    got = judgement.facts
    code, fault_class, retryable, known_as, count, targets = READ[number]
    assert judgement.status is Status.FAIL
    assert (got["innermost_code"], got["class"], got["retryable"]) == (code, fault_class, retryable)
    assert (got["known_as"], len(got["errors"]), got["targets"]) == (known_as, count, targets)
    assert got["code"] == OUTERMOST.get(number, code)
    assert got["next_step"] and len(judgement.findings) == count
    assert all(finding.check == f"azure.{fault_class}" for finding in judgement.findings)


@pytest.mark.parametrize("number", WORDS)
def test_the_message_is_whole_and_on_one_line(number: str) -> None:
    message = facts(number)["message"]
    assert WORDS[number] in message and "\n" not in message


@pytest.mark.parametrize("number", NO_ERROR)
def test_healthy_text_is_no_error_of_any_class(number: str) -> None:
    judgement = judge_bytes("azure-error", case(number))
    assert judgement.status is Status.UNKNOWN
    assert judgement.facts["class"] is None and judgement.facts["errors"] == []
    assert [finding.check for finding in judgement.findings] == ["azure.none"]


@pytest.mark.parametrize("number", READ)
def test_the_tool_is_found_by_itself(number: str) -> None:
    from ndctl.checks.texts.azure_error import looks_like

    assert looks_like(case(number).decode()) > 0.5


@pytest.mark.parametrize("number", NO_ERROR)
def test_healthy_text_is_not_taken_for_an_error(number: str) -> None:
    from ndctl.checks.texts.azure_error import looks_like

    assert looks_like(case(number).decode()) == 0


def test_captures_of_other_tools_are_not_azures() -> None:
    from ndctl.checks.texts.azure_error import looks_like

    others = [file for file in CASES.parent.glob("*/*") if file.parent != CASES and file.is_file()]
    assert others
    taken = [file.name for file in others if looks_like(file.read_text(encoding="utf-8", errors="replace"))]
    assert taken == []
