"""The table of known Azure errors, and the way to the innermost cause."""

import json

import pytest

from ndctl.checks.azure_errors import FaultClass, KnownError, classify, known_errors
from ndctl.checks.azure_unwrap import causes, innermost


def test_table_is_sound() -> None:
    entries = known_errors()
    assert len({entry.id for entry in entries}) == len(entries)
    assert {entry.fault_class for entry in entries} == set(FaultClass)
    assert all(entry.kind == "wrapper" for entry in entries if entry.fault_class is FaultClass.UNKNOWN)
    codes = [code.casefold() for entry in entries if not entry.message for code in entry.codes]
    assert len(set(codes)) == len(codes), "a code stands in two entries"


@pytest.mark.parametrize(
    ("code", "message", "wanted", "retryable"),
    [
        ("OperationNotAllowed", "exceeding approved Total Regional Cores quota. Limit: 100", FaultClass.QUOTA, False),
        ("OperationNotAllowed", "Another operation (Updating) is in progress", FaultClass.CONFLICT, True),
        ("OperationNotAllowed", "The VM is generalized", FaultClass.TEMPLATE, False),
        ("allocationfailed", "", FaultClass.CAPACITY, True),
        ("SkuNotAvailable", "", FaultClass.CAPACITY, False),
        ("LinkedAuthorizationFailed", "", FaultClass.PERMISSION, False),
        ("ExpiredAuthenticationToken", "", FaultClass.AUTH, False),
        ("429", "Too many requests. Please retry.", FaultClass.THROTTLE, True),
        ("BadRequest", "The VM size cannot boot Hypervisor Generation '1'", FaultClass.IMAGE, False),
        ("BadRequest", "Vertical Connect Feature is not available for this Scale Set", FaultClass.TEMPLATE, False),
        ("ScopeLocked", "", FaultClass.POLICY, False),
        ("SomethingNew", "of which nobody has heard", FaultClass.UNKNOWN, False),
    ],
)
def test_code_and_message_give_the_class(code: str, message: str, wanted: FaultClass, retryable: bool) -> None:
    entry = classify(code, message)
    assert (entry.fault_class, entry.retryable) == (wanted, retryable)


def _nest(levels: int) -> dict[str, object]:
    error: dict[str, object] = {"code": "ZonalAllocationFailed", "message": "no room", "target": "7"}
    for _ in range(levels):
        error = {"code": "DeploymentFailed", "message": "see inside", "details": [error]}
    return {"error": error}


@pytest.mark.parametrize("levels", [0, 1, 5])
def test_details_are_followed(levels: int) -> None:
    cause = innermost(list(causes(_nest(levels))))
    assert cause is not None
    assert (cause.code, cause.message, cause.target) == ("ZonalAllocationFailed", "no room", "7")


@pytest.mark.parametrize("times", [1, 2, 3])
def test_json_in_a_message_in_a_message(times: int) -> None:
    text = json.dumps(_nest(1), indent=2).replace("\n", "\r\n")
    for _ in range(times - 1):
        text = json.dumps({"status": "Failed", "error": {"code": "ResourceDeploymentFailure", "message": text}})
    found = list(causes({"error": {"code": "DeploymentFailed", "message": "x", "details": [{"message": text}]}}))
    assert found[0].code == "DeploymentFailed"
    cause = innermost(found)
    assert cause is not None and cause.code == "ZonalAllocationFailed"


def test_known_cause_is_preferred_to_an_unknown_one_before_it() -> None:
    body = {"details": [{"code": "Puzzling", "message": ""}, {"code": "QuotaExceeded", "message": "limit of Core"}]}
    cause = innermost(list(causes(body)))
    assert cause is not None and cause.code == "QuotaExceeded"


def test_a_wrapper_with_nothing_inside_is_the_cause() -> None:
    cause = innermost(list(causes({"error": {"code": "BadRequest", "message": "no"}})))
    assert cause is not None and cause.code == "BadRequest"


@pytest.mark.parametrize("body", [None, 3, "", [], {}, {"error": None}, {"details": [None, 1, "x"]}])
def test_no_error_inside_gives_no_cause(body: object) -> None:
    assert innermost(list(causes(body))) is None


def test_endless_nesting_ends() -> None:
    knot: dict[str, object] = {"code": "DeploymentFailed", "message": "round and round"}
    knot["details"] = [knot]
    assert innermost(list(causes(knot))) is not None


def test_statusmessage_cut_out_of_a_log() -> None:
    text = r'"statusMessage": "{\"status\":\"Failed\",\"error\":{\"code\":\"X\",\"message\":\"in\\n two lines\"}}",'
    cause = innermost(list(causes(text)))
    assert cause is not None and (cause.code, cause.message) == ("X", "in\n two lines")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("(SkuNotAvailable) The requested size is gone.\nCode: SkuNotAvailable\nMessage: The requested size is gone.",
         "SkuNotAvailable", "The requested size is gone."),
        ('Status=409 Code="AllocationFailed" Message="no room"', "AllocationFailed", "no room"),
        ("Allocation failed. We do not have sufficient capacity for the azure size.", "",
         "Allocation failed. We do not have sufficient capacity for the azure size."),
        ("nothing known", "", "nothing known"),
    ],
)  # fmt: skip
def test_text_that_holds_no_json_is_read_as_the_judge_reads_it(text: str, code: str, message: str) -> None:
    cause = innermost(list(causes(text)))
    assert cause is not None and (cause.code, cause.message) == (code, message)


def test_an_error_that_points_inside_is_not_the_cause() -> None:
    inner = {"code": "BadRequest", "message": "Legal terms have not been accepted for this item on this subscription."}
    outer = {"code": "MarketplacePurchaseEligibilityFailed", "message": "See inner errors for details."}
    cause = innermost(list(causes({**outer, "details": [inner]})))
    assert cause is not None and cause.code == "BadRequest"
    cause = innermost(list(causes(outer)))
    assert cause is not None and cause.code == "MarketplacePurchaseEligibilityFailed"


def test_a_family_gives_its_class_only_where_no_entry_names_the_code() -> None:
    assert classify("PrivateIPAddressInUse", "").id == "network"  # though it ends as conflicts do
    assert classify("SomeLeaseInUse", "").fault_class is FaultClass.CONFLICT
    assert classify("DiskQuotaReached", "").fault_class is FaultClass.QUOTA
    assert classify("FooInternalError", "").fault_class is FaultClass.PLATFORM
    assert classify("InvalidRackShape", "").fault_class is FaultClass.TEMPLATE


@pytest.mark.parametrize(
    "entry",
    [
        {"class": "unknwon"},
        {"retry": "sometimes"},
        {"codes": []},
        {"says": ["... x"]},
        {"code_like": "("},
        {"extra": 1},
    ],
)
def test_a_wrong_entry_is_refused(entry: dict[str, object]) -> None:
    sound = {"id": "x", "codes": ["X"], "class": "quota", "retry": "never", "meaning": "What it means.",
             "next": "Do something about it.", "source": "docs"}  # fmt: skip
    assert KnownError.model_validate(sound)
    with pytest.raises(ValueError):
        KnownError.model_validate({**sound, **entry})
