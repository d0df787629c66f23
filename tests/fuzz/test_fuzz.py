"""The fuzz target itself: it judges, and it sees what is wrong."""

from __future__ import annotations

import pytest

import tests.fuzz.__main__ as target
from ndctl.checks.judge import judge_text
from ndctl.model.status import Status


def test_some_hundred_texts_of_a_fixed_seed_do_no_wrong() -> None:
    count, found = target.fuzz(4, 20261202, target.corpus())
    assert found == [] and count > 20


def test_a_fault_that_becomes_a_pass_is_seen() -> None:
    passing = next((tool, text) for tool, _, text in target.corpus() if judge_text(tool, text).status is Status.PASS)
    assert "became a pass" in target.wrong(*passing, None, Status.FAIL)


def test_a_crash_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(tool: str) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(target, "find", crash)
    assert target.wrong("ibstat", "CA 'mlx5_0'", None, None) == "ValueError: broken"
