"""The answer to a pasted text: status and meaning in the first line, then why, then what to do."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from ndctl.model.findings import Finding, Judgement
from ndctl.model.status import Action, Status
from ndctl.report.table import as_plain, judgement_lines
from tests.model import builders


def finding(status: Status, message: str, **more: Any) -> Finding:
    return Finding(**{"check": "nccl.run", "status": status, "subject": "run", "message": message, **more})


def told(*findings: Finding, status: Status = Status.WARN, **more: Any) -> list[str]:
    judgement = Judgement(
        **{"tool": "nccl-tests", "profile": None, "status": status, "facts": {}, "findings": findings, **more}
    )
    return as_plain(judgement_lines(judgement)).splitlines()


CONTENT = finding(Status.PASS, "16 ranks on 4 nodes, peak 378.2 GB/s at 16 GiB")


def test_a_warning_names_what_the_text_holds_and_what_is_odd_about_it() -> None:
    fall_back = finding(
        Status.WARN,
        "the log says NET/IB, not P2P/MNNVL",
        cause="IMEX channel missing or NCCL_MNNVL_ENABLE=0",
        action=Action.INVESTIGATE,
        value=378.2,
        unit="GB/s",
        expected="at least 800",
        source="Azure baseline, 2026-04",
    )
    unchecked = finding(Status.WARN, "correctness not checked (run with -c 0)", cause="-c 0 was given", value=6)
    assert told(CONTENT, fall_back, unchecked, profile="gb300") == [
        "warn     nccl-tests (gb300): 16 ranks on 4 nodes, peak 378.2 GB/s at 16 GiB — "
        "but the log says NET/IB, not P2P/MNNVL",
        "         measured 378.2 GB/s, expected at least 800 (Azure baseline, 2026-04)",
        "         likely: IMEX channel missing or NCCL_MNNVL_ENABLE=0",
        "         do: look closer before anything is changed",
        "         warn: correctness not checked (run with -c 0)",
        "           likely: -c 0 was given",
    ]


def test_the_worst_comes_first_whatever_the_order() -> None:
    warning, fault = finding(Status.WARN, "odd"), finding(Status.FAIL, "broken")
    assert told(warning, fault, status=Status.FAIL) == ["fail     nccl-tests: broken", "         warn: odd"]


def test_all_well_tells_all_that_was_seen() -> None:
    second = finding(Status.PASS, "transport MNNVL", check="nccl.transport")
    skipped = finding(Status.SKIP, "no profile was given")
    assert told(CONTENT, second, skipped, status=Status.PASS) == [
        "pass     nccl-tests: 16 ranks on 4 nodes, peak 378.2 GB/s at 16 GiB",
        "         pass: transport MNNVL",
        "         skip: no profile was given",
    ]


def test_equal_findings_of_many_parts_are_one_and_name_their_parts() -> None:
    ports = [finding(Status.FAIL, "down", subject=f"mlx5_ib{n} port 1") for n in range(4)]
    assert told(*ports, status=Status.FAIL) == [
        "fail     nccl-tests: mlx5_ib0 port 1, mlx5_ib1 port 1, mlx5_ib2 port 1, mlx5_ib3 port 1: down"
    ]


def test_a_part_the_message_names_is_not_named_twice() -> None:
    assert told(finding(Status.FAIL, "mlx5_ib0 is down", subject="mlx5_ib0"), status=Status.FAIL) == [
        "fail     nccl-tests: mlx5_ib0 is down"
    ]


def test_no_result() -> None:
    assert told(status=Status.UNKNOWN) == ["unknown  nccl-tests: no result in this text"]


def test_what_was_not_understood() -> None:
    fields = tuple(f"field {n}" for n in range(8))
    assert told(CONTENT, status=Status.PASS, unknown_fields=fields)[-1] == (
        "         not understood: field 0, field 1, field 2, field 3, field 4, field 5 and 2 more"
    )


@settings(max_examples=60, deadline=None)
@given(builders.judgements)
def test_any_judgement_can_be_told(judgement: Judgement) -> None:
    text = as_plain(judgement_lines(judgement))
    assert text.startswith(f"{judgement.status.value:<8} {judgement.tool}")
    assert "\x1b" not in text
    text.encode("utf-8")
