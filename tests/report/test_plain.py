"""Texts of nodes can't act on the terminal of who reads them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given

from ndctl.report.plain import one_line, shown
from tests.model.builders import texts


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain · ünï 🔥", "plain · ünï 🔥"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\after", "after"),
        ("\x1b]never ended", ""),
        ("\x1b(Bcharset\x1b7\x1b8", "charset"),
        ("a\x00b\x07c\x9b", "a\ufffdb\ufffdc\ufffd"),
        ("safe\u202egnp.exe", "safe\ufffdgnp.exe"),
        ("\udcff\ud800", "\ufffd\ufffd"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("lone \x1b", "lone \ufffd"),
    ],
)
def test_shown(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_one_line() -> None:
    assert one_line("a \t\n\n b\tc\n") == "a b c"
    assert one_line("  keeps   its blanks") == "  keeps   its blanks"


@given(texts)
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    assert all(unicodedata.category(one) not in ("Cc", "Cs") or one in "\n\t" for one in shown(text))
    assert not set("\n\t\r\x1b") & set(one_line(text))
    assert len(one_line(text).splitlines()) <= 1
