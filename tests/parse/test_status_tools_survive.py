"""Whatever is done to an output, no parser raises, a cut never accuses a healthy part, and emptiness never passes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ndctl.checks.judge import find, judge_text
from ndctl.model.jsonable import dumps
from ndctl.model.status import Status
from ndctl.profiles import load
from tests.parse.composed import HEALTHY

CAPTURES = Path(__file__).parent.parent / "captures"
TOOLS = tuple(sorted(HEALTHY))
SLOW = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def texts_of(tool: str) -> list[str]:
    folder = CAPTURES / tool
    real = [file.read_text(errors="replace") for file in sorted(folder.glob("[0-9]*"))] if folder.is_dir() else []
    return [*real, *([HEALTHY[tool]] if tool in HEALTHY else [])]


def judged(tool: str, text: str, profile: str | None = None) -> Status:
    """parse and judge are called bare, so that a crash is not hidden by the guard of `judge_text`."""
    one = find(tool)
    promised = load(profile) if profile else None
    one.judge(one.parse(text), promised)
    judgement = judge_text(tool, text, promised)
    assert judgement.findings
    dumps(judgement)
    return judgement.status


@pytest.mark.parametrize("tool", sorted(HEALTHY))
def test_a_healthy_output_passes(tool: str) -> None:
    assert judged(tool, HEALTHY[tool]) is Status.PASS


@pytest.mark.parametrize("tool", sorted(HEALTHY))
def test_a_cut_at_any_byte_blames_nothing(tool: str) -> None:
    text = HEALTHY[tool]
    step = max(1, len(text) // 250)
    for end in range(0, len(text), step):
        assert judged(tool, text[:end]) is not Status.FAIL, text[:end][-120:]


@pytest.mark.parametrize("tool", sorted(HEALTHY))
def test_the_tail_alone_blames_nothing(tool: str) -> None:
    text = HEALTHY[tool]
    for begin in range(0, len(text), max(1, len(text) // 200)):
        assert judged(tool, text[begin:]) is not Status.FAIL, text[begin:][:120]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("text", ["", " \n\n", "\x00\x01\x02" * 400, "hello world\n", "{}", "[]", "<a>", "N/A\n" * 40])
def test_nothing_is_never_a_pass(tool: str, text: str) -> None:
    assert judged(tool, text) in (Status.UNKNOWN, Status.FAIL)
    assert judged(tool, text) is not Status.FAIL


@pytest.mark.parametrize("tool", TOOLS)
def test_other_tools_outputs_are_no_pass(tool: str) -> None:
    near = {
        frozenset({"nvidia-smi", "nvidia-smi-q"}),
        frozenset({"perfquery", "ibqueryerrors"}),
        frozenset({"nvidia-smi-q", "nvidia-smi-xml"}),
    }
    for other, text in HEALTHY.items():
        if other != tool and frozenset({tool, other}) not in near:
            assert judged(tool, text) is not Status.PASS, other


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
@SLOW
def test_any_damage_is_survived(tool: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(texts_of(tool) or ["x\n"]))
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    noise = data.draw(st.text(max_size=40))
    at = data.draw(st.integers(begin, end))
    judged(tool, text[begin:at] + noise + text[at:end], data.draw(st.sampled_from([None, "gb300"])))


@pytest.mark.parametrize("tool", sorted(HEALTHY))
def test_dress_changes_nothing(tool: str) -> None:
    text = HEALTHY[tool]
    facts = judge_text(tool, text).facts
    dressed = {
        "crlf": text.replace("\n", "\r\n"),
        "ansi": "\n".join(f"\x1b[0m{line}\x1b[K" for line in text.split("\n")),
        "nbsp": text.replace("  ", "\u00a0\u00a0"),
        "quoted": "\n".join(f"> {line}" for line in text.split("\n")),
        "prompt": f"azureuser@rack01-n03:~$ some-command\n{text}azureuser@rack01-n03:~$ \n",
        "fence": f"```\n{text}```\n",
    }
    for name, other in dressed.items():
        judgement = judge_text(tool, other)
        assert judgement.status is Status.PASS, name
        if name in {"crlf", "ansi", "nbsp"} and tool != "kernel-log":
            assert judgement.facts == facts, name


@pytest.mark.parametrize("tool", TOOLS)
def test_giant_numbers_and_endless_lines(tool: str) -> None:
    digits = "9" * 5000
    for text in texts_of(tool)[:3]:
        judged(tool, text.replace("0", digits, 3))
        judged(tool, text + "x" * 200_000)
        judged(tool, text.replace(":", ":" * 300, 5))


@pytest.mark.parametrize("tool", sorted(HEALTHY))
def test_time_is_linear(tool: str) -> None:
    """Eight megabytes of good lines in seconds: no pattern looks twice at a whole text. CPU time, not the wall's."""
    text = HEALTHY[tool]
    big = text * (8_000_000 // len(text))
    one = find(tool)
    start = time.process_time()
    one.judge(one.parse(big), None)
    assert time.process_time() - start < 20
