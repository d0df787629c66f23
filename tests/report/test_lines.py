"""Folding for narrow terminals, and no folding, colour or markup anywhere else."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from ndctl.report.lines import Line, as_plain, as_text
from tests.model.builders import texts

LONG = "  warn     rack07-n03   " + " ".join(f"word{number}" for number in range(30))


def test_a_pipe_gets_the_line_as_it_is() -> None:
    assert as_plain([Line(LONG, "red", hang=11)]) == LONG + "\n"


def test_a_terminal_gets_it_folded_under_its_text() -> None:
    lines = as_plain([Line(LONG, hang=11)], width=60).splitlines()
    assert len(lines) > 3
    assert all(len(line) <= 60 for line in lines)
    assert all(line.startswith(" " * 11) and line[11] != " " for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == " ".join(LONG.split())


@pytest.mark.parametrize("width", [0, 10, 39])
def test_a_terminal_too_narrow_to_fold_for(width: int) -> None:
    assert as_plain([Line(LONG)], width) == LONG + "\n"


def test_a_command_is_not_folded_since_it_is_copied() -> None:
    command = "next: ndctl validate inventories/swc-a.yaml --nodes 'rack08-n[03-05,09]' --level quick"
    assert as_plain([Line(command, hang=None)], width=40) == command + "\n"


def test_a_word_longer_than_the_terminal_stays_whole() -> None:
    word = "x" * 90
    assert as_plain([Line(f"see {word} there", hang=4)], width=50).splitlines() == ["see", f"    {word}", "    there"]


def test_wide_characters_take_two_columns() -> None:
    lines = as_plain([Line("磁盘 " * 30, hang=2)], width=40).splitlines()
    assert max(map(cell_len, lines)) <= 40
    assert [line.count("磁盘") for line in lines] == [8, 7, 7, 7, 1]


@given(texts, st.integers(40, 120), st.integers(0, 60))
def test_folding_loses_nothing(text: str, width: int, hang: int) -> None:
    whole = as_plain([Line(text, hang=hang)])
    assert whole.count("\n") == 1
    assert as_plain([Line(text, hang=hang)], width).split() == whole.split()


def test_markup_and_emoji_codes_are_shown_as_they_are_written() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="truecolor", width=40, highlight=False)
    text = "[red]not red[/red] [link=x] :warning: [/]"
    console.print(as_text([Line(text, "green")]), end="", soft_wrap=True)
    assert out.getvalue() == f"\x1b[32m{text}\x1b[0m\n"
