"""A deployment's answer, and the exit status it means."""

import pytest

from ndctl.azure.faults import AzureFault, fault_from_body
from ndctl.cli.deploy import result_lines
from ndctl.model.errors import ExitCode
from ndctl.workflow.deploy_result import DeployResult, Fate, RackEnd

ALLOCATION = fault_from_body(
    {
        "code": "DeploymentFailed",
        "message": "x",
        "details": [{"code": "AllocationFailed", "message": "Allocation failed. We do not have sufficient capacity."}],
    }
)
DENIED = fault_from_body({"code": "AuthorizationFailed", "message": "no"})


def end(number: int, fate: Fate, there: int = 18, fault: AzureFault | None = None, **more: object) -> RackEnd:
    return RackEnd(f"rack{number:02d}", fate, 18, there, fault=fault, **more)  # type: ignore[arg-type]


def result(*racks: RackEnd, foundation: Fate = Fate.UNCHANGED, interrupted: bool = False) -> DeployResult:
    return DeployResult("swc-a", "swc-a.yaml", "d", RackEnd("foundation", foundation), racks, interrupted)


def test_63_racks_and_one_partial() -> None:
    told = result(
        *(end(n, Fate.UNCHANGED) for n in range(1, 64)),
        end(64, Fate.PARTIAL, 16, ALLOCATION, failed_instances=("7", "11")),
    )
    assert result_lines(told) == [
        "rack01-rack63  unchanged",
        "rack64  partial: 16 of 18 VMs. instances 7, 11: AllocationFailed (capacity, may be tried again)",
        '        innermost: "Allocation failed. We do not have sufficient capacity."',
        "        next: ndctl deploy swc-a.yaml again later, or ndctl validate swc-a.yaml --rack 64 on the 16",
        "63 racks as planned, 1 partial",
    ]
    assert told.exit_code is ExitCode.DEPLOY_PARTIAL


@pytest.mark.parametrize(
    ("fates", "foundation", "wanted"),
    [
        ((Fate.DEPLOYED, Fate.UNCHANGED), Fate.DEPLOYED, ExitCode.OK),
        ((Fate.DEPLOYED, Fate.FAILED), Fate.DEPLOYED, ExitCode.DEPLOY_PARTIAL),
        ((Fate.FAILED, Fate.FAILED), Fate.DEPLOYED, ExitCode.DEPLOY_FAILED),
        ((Fate.PARTIAL,), Fate.DEPLOYED, ExitCode.DEPLOY_FAILED),
        ((Fate.REFUSED, Fate.REFUSED), Fate.UNCHANGED, ExitCode.PREFLIGHT),
        ((Fate.REFUSED, Fate.UNCHANGED), Fate.UNCHANGED, ExitCode.DEPLOY_PARTIAL),
        ((Fate.NOT_STARTED, Fate.NOT_STARTED), Fate.FAILED, ExitCode.DEPLOY_FAILED),
        ((Fate.STILL_RUNNING, Fate.DEPLOYED), Fate.DEPLOYED, ExitCode.DEPLOY_PARTIAL),
    ],
)
def test_exit_status(fates: tuple[Fate, ...], foundation: Fate, wanted: ExitCode) -> None:
    assert result(*(end(n, fate) for n, fate in enumerate(fates, 1)), foundation=foundation).exit_code is wanted


def test_permission_and_interruption_come_first() -> None:
    racks = (end(1, Fate.FAILED, 0, DENIED), end(2, Fate.DEPLOYED))
    assert result(*racks).exit_code is ExitCode.PERMISSION
    told = result(*racks, interrupted=True)
    assert told.exit_code is ExitCode.INTERRUPTED
    assert result_lines(told)[-1] == "next: ndctl deploy swc-a.yaml   (goes on where this stopped)"


def test_fewer_vms_than_asked_without_any_error_is_partial_and_said() -> None:
    lines = result_lines(result(end(1, Fate.PARTIAL, 17), end(2, Fate.DEPLOYED)))
    assert lines[0] == "rack01  partial: 17 of 18 VMs. Azure reports no error"


def test_what_stays_and_costs_is_told_where_no_rack_has_a_vm_and_only_there() -> None:
    told = "ndctl destroy swc-a.yaml takes it away"
    none = result(end(1, Fate.FAILED, 0, ALLOCATION), end(2, Fate.FAILED, 0), foundation=Fate.DEPLOYED)
    assert result_lines(none)[-1].endswith(told)
    assert "rack02  failed. Azure reports no error" in result_lines(none)
    uncounted = RackEnd("rack02", Fate.FAILED, 18, None)
    for other in (uncounted, end(2, Fate.UNCHANGED), end(2, Fate.PARTIAL, 3)):
        assert not any(told in line for line in result_lines(result(end(1, Fate.FAILED, 0, ALLOCATION), other)))


def test_json_form_has_the_fault_by_its_published_keys() -> None:
    told = result(end(1, Fate.FAILED, 0, ALLOCATION)).as_dict()
    assert told["schema"] == "ndctl.deploy/1" and told["exit_code"] == 5
    assert told["racks"][0]["fault"]["class"] == "capacity"
    assert told["racks"][0]["fault"]["innermost_code"] == "AllocationFailed"
