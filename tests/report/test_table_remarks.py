"""What was left out or forced is told, also of racks that are fine, and not once for each check."""

from __future__ import annotations

from ndctl.model.status import Status, Verdict
from ndctl.report.table import as_plain, run_lines
from tests.model.builders import finding, rack, run


def test_remarks_are_told_once_for_all_racks_they_are_said_of() -> None:
    said = {"remarks": ["left out for the budget of 2m: gpu.gemm (about 60 s)"]}
    racks = [rack(n, name=f"rack{n:02d}", verdict=Verdict.ACCEPTED, findings=(), facts=said) for n in (1, 2, 3)]
    told = as_plain(run_lines(run(*racks))).splitlines()
    assert [line for line in told if line.startswith("note:")] == [
        "note: rack[01-03]: left out for the budget of 2m: gpu.gemm (about 60 s)"
    ]


def test_no_remark_no_line_whatever_a_record_holds() -> None:
    for facts in ({}, {"remarks": []}, {"remarks": None}, {"remarks": "text"}, {"remarks": 7}):
        assert "note:" not in as_plain(run_lines(run(rack(verdict=Verdict.ACCEPTED, findings=(), facts=facts))))


def test_checks_skipped_for_one_reason_are_one_line() -> None:
    skips = tuple(
        finding(Status.SKIP, check=f"nccl.{test}.left-out", node=f"rack07-n0{n}", subject="all GPUs", message="busy")
        for test in ("all-gather", "all-reduce", "alltoall", "sendrecv")
        for n in (2, 3)
    )
    told = as_plain(run_lines(run(rack(verdict=Verdict.INCOMPLETE, findings=skips)))).splitlines()
    [line] = [line for line in told if line.lstrip().startswith("skip")]
    assert line.split(None, 1)[1] == (
        "nccl.all-gather.left-out, nccl.all-reduce.left-out, nccl.alltoall.left-out and 1 more  rack07-n[02-03]   busy"
    )
