"""The same error gives the same answer in whatever a tool wraps it in, and however it was pasted."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ndctl.checks.azure_errors import known_errors
from ndctl.checks.texts.azure_error import parse
from tests.checks.azure_wrappers import WRAPPERS

SAMPLES = yaml.safe_load(Path(__file__).with_name("azure_samples.yaml").read_text(encoding="utf-8"))
# A code that nobody knows is told only where its place says that it is a code.
PLACELESS = {"devops", "vscode"}


def test_samples_are_of_every_class() -> None:
    assert {one["class"] for one in SAMPLES} == {entry.fault_class.value for entry in known_errors()}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_error_in_every_wrapper(wrapper: str) -> None:
    known = {code.casefold() for entry in known_errors() for code in entry.codes}
    for one in SAMPLES:
        if wrapper in PLACELESS and one["code"].casefold() not in known:
            continue
        got = parse(WRAPPERS[wrapper](one["code"], one["message"]))
        assert (got["innermost_code"], got["class"], got["retryable"], len(got["errors"])) == (
            one["code"],
            one["class"],
            one["retryable"],
            1,
        ), one


def wrapped(text: str, width: int) -> str:
    lines = text.split("\n")
    return "\n".join(line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width))


def indented(text: str, mark: str) -> str:
    return "\n".join(mark + line for line in text.split("\n"))


PASTED: dict[str, Callable[[str], str]] = {
    "wrapped at 80": lambda text: wrapped(text, 80),
    "wrapped at 61, indented": lambda text: indented(wrapped(text, 61), "      "),
    "wrapped between words": lambda text: "\n".join(
        line for one in text.split("\n") for line in textwrap.wrap(one, 78) or [""]
    ),
    "Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "line ends as ^M": lambda text: text.replace("\n", "^M\n"),
    "coloured": lambda text: "\x1b[31m" + text.replace("\n", "\x1b[0m\n\x1b[31m") + "\x1b[0m",
    "indented": lambda text: indented(text, "\t"),
    "indentation lost": lambda text: "\n".join(line.strip() for line in text.split("\n")),
    "quoted in mail": lambda text: indented(text, "> "),
    "in a box": lambda text: indented(text, "\u2502 "),
    "twice": lambda text: f"{text}\n{text}",
    "twice, apart": lambda text: f"{text}\n\n{text}",
    "as a JSON string": json.dumps,
    "in a log of JSON lines": lambda text: json.dumps({"level": "error", "msg": text, "time": "2026-04-11"}),
    "in a log in a log": lambda text: json.dumps({"log": json.dumps({"level": "error", "error": text})}),
    "on one line": lambda text: " ".join(text.split("\n")),
    "out of a web page": lambda text: text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;"),
    "apostrophes escaped": lambda text: text.replace("'", "\\u0027"),
    "escapes lost": lambda text: text.replace("\\", ""),
    "typographic quotes": lambda text: text.replace(' "', " \u201c").replace('"', "\u201d").replace("'", "\u2019"),
    "between other lines": lambda text: f"INFO deploying rack64\n$ ndctl deploy\n{text}\nexit status 1\n",
}
CHOSEN = [one for one in SAMPLES if one["code"] in ("ZonalAllocationFailed", "AuthorizationFailed", "QuotaExceeded")]


@pytest.mark.parametrize("way", PASTED)
def test_however_it_was_pasted(way: str) -> None:
    wrong = []
    for name, wrapper in WRAPPERS.items():
        for one in CHOSEN:
            got = parse(PASTED[way](wrapper(one["code"], one["message"])))
            if (got["class"], got["retryable"], len(got["errors"])) != (one["class"], one["retryable"], 1):
                wrong.append((name, one["code"], got["class"], len(got["errors"])))
    assert wrong == []
