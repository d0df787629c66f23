"""Adapters' own complaints in the kernel log: the rail they name, and what is no complaint of a rail."""

from __future__ import annotations

import pytest

from ndctl.checks.catalogue.infiniband_adapters import CHECK
from ndctl.model.answers import CommandResult
from ndctl.model.findings import Finding
from ndctl.model.status import Status
from tests.checks.catalogue.rack_texts import GB300, QUIET_LOG, answer, healthy, node, result

NODE = node(3)


def judge(log: str | CommandResult) -> list[Finding]:
    assert CHECK.judge_node is not None
    return list(CHECK.judge_node(answer(NODE, healthy([NODE])[NODE] | {"kernel-log": log}), GB300))


def line(text: str) -> str:
    return f"{QUIET_LOG}2026-12-02T03:12:09.000001+0000 host kernel: mlx5_core {text}\n"


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("poll_health:825: device's health compromised - reached miss count.", "mlx5-health", Status.FAIL),
        ("Port module event[error]: module 0, Cable error, Bad or shorted cable/module", "mlx5-cable", Status.FAIL),
        ("temp_warn:146: High temperature on sensors with bit set 0x1", "mlx5-temperature", Status.WARN),
        (
            "wait_func:1171: ACCESS_REG(0x805) timeout. Will cause a leak of a command resource",
            "mlx5-command",
            Status.FAIL,
        ),
    ],
)
def test_a_complaint_is_told_of_its_rail(text: str, kind: str, status: Status) -> None:
    (bad,) = judge(line(f"0102:00:00.0: {text}"))
    assert (bad.check, bad.status, bad.node) == (f"infiniband.adapters.{kind}", status, "rack01-n03")
    assert bad.subject == "mlx5_ib1 (0102:00:00.0)" and bad.cause


def test_the_ethernet_function_and_refused_registers_are_passed_over() -> None:
    health = "poll_health:825: device's health compromised - reached miss count."
    refused = "mlx5_cmd_out_err:838: ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), err(-22)"
    for text in (f"7870:00:02.0: {health}", f"0102:00:00.0: {refused}"):
        assert [f.status for f in judge(line(text))] == [Status.PASS], text


def test_a_log_that_cannot_be_read_is_no_pass() -> None:
    for log in ("", "dmesg: read kernel buffer failed: Operation not permitted\n", result("kernel-log", code=126)):
        assert [f.status for f in judge(log)] == [Status.UNKNOWN], log
    cut = result("kernel-log", line("0102:00:00.0: temp_warn:146: High temperature on sensors"), truncated=True)
    assert {f.status for f in judge(cut)} == {Status.WARN, Status.UNKNOWN}
