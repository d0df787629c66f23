"""The registry and detection: every judge is found, none is guessed."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from ndctl.checks import judge as judging
from ndctl.checks.judge import MAX_BYTES, detect, find, judge_text, judges, tools
from ndctl.checks.texts.base import TextJudge
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.findings import Finding
from ndctl.model.status import Status


@dataclass(frozen=True)
class Facts:
    words: int
    unknown_fields: tuple[str, ...] = ("colour",)


def made(tool: str, likes: float, findings: list[Finding] | None = None, broken: bool = False) -> TextJudge:
    def parse(text: str) -> Facts:
        if broken:
            raise IndexError("list index out of range")
        return Facts(len(text.split()))

    return TextJudge(tool, tool, parse, lambda facts, profile: findings or [], lambda text: likes)


def finding(status: Status) -> Finding:
    return Finding(check="x", status=status, subject="it", message=status.value)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch):
    def use(*some: TextJudge) -> None:
        monkeypatch.setattr(judging, "judges", lambda: {one.tool: one for one in some})

    return use


def test_every_judge_has_its_own_name() -> None:
    names = [name for judge in judges().values() for name in (judge.tool, *judge.aliases)]
    assert len(names) == len(set(names))
    assert tools() == sorted(judges())
    assert "auto" not in names


def test_names_are_forgiving_and_unknown_ones_helpful() -> None:
    assert find(" NCCL_Tests ").tool == "nccl-tests"
    with pytest.raises(NdctlError) as caught:
        find("nvbandwith")
    assert caught.value.exit_code is ExitCode.USAGE
    assert "nvbandwidth" in caught.value.hint


def test_two_that_fit_are_not_guessed_between(only) -> None:
    only(made("a", 0.9), made("b", 0.88), made("c", 0.2))
    found, reason = detect("text")
    assert found is None
    assert "a or b" in reason
    only(made("a", 0.9), made("b", 0.5))
    assert detect("text")[0].tool == "a"  # type: ignore[union-attr]
    only(made("a", 0.4))
    assert detect("text")[0] is None


def test_no_finding_or_only_skips_is_unknown(only) -> None:
    for findings in ([], [finding(Status.SKIP)]):
        only(made("a", 1.0, findings))
        judgement = judge_text("a", "text")
        assert judgement.status is Status.UNKNOWN
        assert judgement.findings[0].check == "judge.no-result"


def test_worst_comes_first(only) -> None:
    only(made("a", 1.0, [finding(s) for s in (Status.PASS, Status.WARN, Status.SKIP, Status.FAIL, Status.UNKNOWN)]))
    judgement = judge_text("auto", "one two")
    assert [f.status for f in judgement.findings] == ["fail", "unknown", "warn", "pass", "skip"]
    assert judgement.status is Status.FAIL
    assert judgement.facts == {"words": 2}
    assert judgement.unknown_fields == ("colour",)


def test_a_crash_of_a_parser_is_unknown_and_told(only) -> None:
    only(made("a", 1.0, broken=True))
    judgement = judge_text("a", "text")
    assert judgement.status is Status.UNKNOWN
    assert "IndexError" in judgement.findings[0].message


def test_too_large(only) -> None:
    only(made("a", 1.0, [finding(Status.PASS)]))
    assert judge_text("a", "x" * (MAX_BYTES + 1)).status is Status.UNKNOWN


@pytest.mark.parametrize(
    "text",
    ["x" * 2_000_000, "{\n" * 500_000, "{" * 1_000_000, "| a | b |\n" * 100_000, " " * 1_000_000 + "a", "9 " * 500_000],
)
def test_detection_is_fast_on_hostile_texts(text: str) -> None:
    """Each of these once took some pattern quadratic time."""
    began = time.process_time()
    assert judge_text("auto", text).status is Status.UNKNOWN
    assert time.process_time() - began < 5
