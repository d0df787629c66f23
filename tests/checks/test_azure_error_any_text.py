"""Whatever is pasted: an honest answer, never a pass, never an exception, and in time that grows with the text only."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndctl.checks.judge import judge_text
from ndctl.checks.texts.azure_error import parse
from ndctl.model.status import Status
from tests.checks.test_azure_error_cases import CASES, NO_ERROR, READ

TEXTS = {file.name[:2]: file.read_text(encoding="utf-8") for file in sorted(CASES.iterdir())}
ERRORS = {number: TEXTS[number] for number in READ}
CLASS = {number: reading[1] for number, reading in READ.items()}


def answers(text: str) -> tuple[Status, str | None]:
    judgement = judge_text("azure-error", text)
    assert judgement.status in (Status.FAIL, Status.UNKNOWN)
    assert not [one for one in judgement.findings if one.check == "judge.parser-failed"]
    assert (judgement.status is Status.FAIL) == bool(judgement.facts.get("errors"))
    return judgement.status, judgement.facts.get("class")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(ERRORS)), st.floats(0, 1), st.booleans())
def test_cut_anywhere(number: str, share: float, keep_head: bool) -> None:
    raw = ERRORS[number].encode()
    at = int(share * len(raw))
    answers((raw[:at] if keep_head else raw[at:]).decode(errors="replace"))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(NO_ERROR)), st.floats(0, 1), st.booleans())
def test_no_part_of_a_healthy_text_is_an_error(number: str, share: float, keep_head: bool) -> None:
    raw = TEXTS[number].encode()
    at = int(share * len(raw))
    assert answers((raw[:at] if keep_head else raw[at:]).decode(errors="replace")) == (Status.UNKNOWN, None)


def test_a_state_that_is_cut_off_is_no_failure() -> None:
    view = '{"statuses": [{"code": "ProvisioningState/succeeded", "level": "Info"}]}'
    for end in range(len(view)):
        assert answers(view[:end]) == (Status.UNKNOWN, None), view[:end]
    assert answers(view.replace("succeeded", "failed/AllocationFailed"))[0] is Status.FAIL


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(ERRORS)), st.integers(60, 200))
def test_wrapped_at_any_column(number: str, width: int) -> None:
    lines = ERRORS[number].split("\n")
    text = "\n".join(line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width))
    assert answers(text) == (Status.FAIL, CLASS[number])


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(ERRORS)), st.text(" \t", max_size=12), st.sampled_from(["\n", "\r\n", "^M\n", "\r"]))
def test_indented_and_with_other_line_ends(number: str, indent: str, end: str) -> None:
    text = "".join(f"{indent}\x1b[31m{line}\x1b[0m{end}" for line in ERRORS[number].replace("^M", "").split("\n"))
    assert answers(text) == (Status.FAIL, CLASS[number])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(ERRORS)), st.integers(1, 3))
def test_inside_a_log_of_json(number: str, times: int) -> None:
    text = ERRORS[number]
    for _ in range(times):
        text = json.dumps({"level": "error", "msg": text})
    assert answers(text) == (Status.FAIL, CLASS[number])


@pytest.mark.parametrize("number", ERRORS)
def test_twice_is_once(number: str) -> None:
    once, twice = parse(ERRORS[number]), parse(f"{ERRORS[number]}\n{ERRORS[number]}")
    assert (twice["class"], twice["innermost_code"]) == (once["class"], once["innermost_code"])
    if number != "25":  # cut in the middle of its last message, which the copy then ends
        assert len(twice["errors"]) == len(once["errors"])


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.sampled_from('{}[]"\'\\:=,;() \nabcCode message target Message="QuotaExceeded"/│\u201c'), max_size=400)
)
def test_noise_of_the_same_signs(text: str) -> None:
    answers(text)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(sorted(TEXTS.values())), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_shuffled_lines(texts: list[str], random: object) -> None:
    lines = [line for text in texts for line in text.split("\n")]
    random.shuffle(lines)  # type: ignore[attr-defined]
    answers("\n".join(lines))


PATTERNS = {
    "backslashes": "\\",
    "quotes": '\\"',
    "keys": '"code":',
    "open messages": '"message":"',
    "brackets": "[{",
    "closings": "}]",
    "blank lines": "\n   ",
    "letters": "Aa",
    "codes": "(AuthorizationFailed) ",
    "sentences": "too many requests azure ",
    "beginnings": "requested size ",
    "statuses": "Status=429 ",
    "wrapped": "Quota\nExceeded ",
    "escapes": "\\\\n\\u0022",
    "xml": "<code>",
    "errors": '{"error":{"code":"AllocationFailed","message":"x"}} ',
    "colons": ": Aaaa: ",
}


@pytest.mark.parametrize("name", PATTERNS)
def test_time_grows_with_the_text_only(name: str) -> None:
    def seconds(size: int) -> float:
        text = PATTERNS[name] * (size // len(PATTERNS[name]))
        begun = time.process_time()
        parse(text)
        return time.process_time() - begun

    parse("warm")
    small = max(seconds(100_000), 0.02)
    assert seconds(800_000) < 8 * 4 * small


def test_thirty_megabytes() -> None:
    line = "2026-04-11T04:43:03Z ERROR rack64: code 1, message: retrying the deployment after a failure\n"
    error = Path(next(CASES.glob("18-*"))).read_text(encoding="utf-8")
    text = error + line * (30 * 2**20 // len(line))
    begun = time.process_time()
    assert parse(text)["class"] == "capacity"
    assert time.process_time() - begun < 60
