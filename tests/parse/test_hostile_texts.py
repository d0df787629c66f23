"""Whatever is done to a passing output, no parser raises, and what hides its results makes it no pass."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ndctl.checks.judge import find, judge_text
from ndctl.model.jsonable import dumps
from ndctl.model.status import Status

CAPTURES = Path(__file__).parent.parent / "captures"
TOOLS = ("nccl-tests", "ib-write-bw", "ib-write-lat", "nvbandwidth", "dcgmi-diag", "dcgmi-health", "dcgmi-nvlink")
TEXTS = {
    tool: [file.read_text(errors="replace") for file in sorted((CAPTURES / tool).iterdir()) if file.name[0].isdigit()]
    for tool in TOOLS
}
HEALTHY_LINKS = (
    "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n"
    + "".join(f"    gpuId {gpu}:\n        {' '.join('U' * 18)}\n" for gpu in range(4))
    + "NvSwitches:\n    No NvSwitches found.\n\nKey: Up=U, Down=D, Disabled=X, Not Supported=_\n"
)
HEALTHY_HEALTH = (
    "+---------------------------+----------------------------------------------------------+\n"
    "| Health Monitor Report                                                                |\n"
    "+===========================+==========================================================+\n"
    "| Overall Health            | Healthy                                                  |\n"
    "+---------------------------+----------------------------------------------------------+\n"
)
# (tool, text, where its results begin): each passes as it is
PASSING = [
    ("nccl-tests", next(t for t in TEXTS["nccl-tests"] if "66421" in t), "    33554432"),
    ("nccl-tests", next(t for t in TEXTS["nccl-tests"] if "h100-xxx01" in t), "  1073741824"),
    ("ib-write-bw", next(t for t in TEXTS["ib-write-bw"] if "24056" in t), " 8388608 "),
    ("ib-write-lat", next(t for t in TEXTS["ib-write-lat"] if "rocep1s0f1" in t), " 2       1000"),
    ("nvbandwidth", next(t for t in TEXTS["nvbandwidth"] if "A100-SXM4-40GB" in t), " 0     25.13"),
    ("dcgmi-diag", next(t for t in TEXTS["dcgmi-diag"] if "Blacklist" in t), '"results"'),
    ("dcgmi-nvlink", HEALTHY_LINKS, "        U"),
    ("dcgmi-health", HEALTHY_HEALTH, "Healthy"),
]
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def judged(tool: str, text: str) -> Status:
    """The status; parse and judge are called bare, so that a crash is not hidden by the judge's own guard."""
    one = find(tool)
    one.judge(one.parse(text), None)
    judgement = judge_text(tool, text)
    assert not any(finding.check == "judge.parser-failed" for finding in judgement.findings)
    assert judgement.findings
    dumps(judgement)
    return judgement.status


@pytest.mark.parametrize(("tool", "text", "mark"), PASSING, ids=[f"{p[0]}-{i}" for i, p in enumerate(PASSING)])
def test_passes_whole_and_never_when_cut_before_its_results(tool: str, text: str, mark: str) -> None:
    assert judged(tool, text) is Status.PASS
    end = text.index(mark)
    for cut in range(0, end, max(1, end // 60)):
        assert judged(tool, text[:cut]) is not Status.PASS, text[:cut]
    assert judged(tool, text[: end + 1]) is not Status.PASS


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
@SLOW
def test_any_cut_is_survived(tool: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS[tool]))
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    judged(tool, text[begin:end])


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
@SLOW
def test_noise_between_and_inside_lines_is_survived(tool: str, data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(TEXTS[tool])).split("\n")
    noise = data.draw(
        st.lists(
            st.sampled_from(
                [
                    "node1:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
                    "Warning: Permanently added 'node1' (ED25519) to the list of known hosts.",
                    "\x1b[31mred\x1b[0m", "", "-" * 40, "{", "}", "[", '"', "|", "9" * 400, "nan inf -nan", "\t",
                    "| x | y |",
                ]
            )
            | st.text(max_size=60),
            max_size=12,
        )
    )  # fmt: skip
    rng = random.Random(data.draw(st.integers(0, 2**16)))
    for extra in noise:
        place = rng.randrange(len(lines) + 1)
        if rng.random() < 0.5 and place < len(lines):
            inside = rng.randrange(len(lines[place]) + 1)
            lines[place] = lines[place][:inside] + extra + lines[place][inside:]
        else:
            lines.insert(place, extra)
    judged(tool, "\n".join(lines))


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
@SLOW
def test_shuffled_words_and_giant_numbers_are_survived(tool: str, data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(TEXTS[tool])).split("\n")
    rng = random.Random(data.draw(st.integers(0, 2**16)))
    giant = data.draw(
        st.sampled_from(["9" * 5000, "1e999", "-1e-999", "0x" + "f" * 300, "NaN", "-inf", "1" * 25, "N/A"])
    )
    for place, line in enumerate(lines):
        if rng.random() < 0.3:
            words = line.split(" ")
            rng.shuffle(words)
            if rng.random() < 0.5:
                words[rng.randrange(len(words))] = giant
            lines[place] = " ".join(words)
    judged(tool, "\n".join(lines))


@pytest.mark.parametrize("tool", TOOLS)
@given(text=st.text(max_size=400) | st.binary(max_size=400).map(lambda b: b.decode("latin-1")))
@SLOW
def test_any_text_is_no_pass(tool: str, text: str) -> None:
    assert judged(tool, text) is not Status.PASS


@pytest.mark.parametrize("tool", TOOLS)
def test_other_tools_texts_are_no_pass(tool: str) -> None:
    related = {"ib-write-bw", "ib-write-lat"}
    for other, texts in TEXTS.items():
        if other == tool or {tool, other} <= related:
            continue
        for text in texts:
            assert judged(tool, text) is not Status.PASS, (tool, other, text[:200])


@pytest.mark.parametrize(("tool", "text", "mark"), PASSING, ids=[f"{p[0]}-{i}" for i, p in enumerate(PASSING)])
def test_harmless_wrappings_change_nothing(tool: str, text: str, mark: str) -> None:
    for same in (
        text.replace("\n", "\r\n"),
        "".join(f"\x1b[1m{line}\x1b[0m\n" for line in text.split("\n")),
        "".join(f"[1,3]<stdout>:{line}\n" for line in text.split("\n")),
        "".join(f"    {line}\n" for line in text.split("\n")),
    ):
        assert judged(tool, same) is Status.PASS
