"""Sentences found in wrapped text, the way back to where they stand, quotes that close, and brackets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndctl.parse.azure_error import Vocabulary, parse
from ndctl.parse.azure_keys import Frames, lowered, pairs
from ndctl.parse.azure_text import Legible, Sentence, paragraph, squash


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        ("too many requests", "Too\n   many re\nquests", True),
        ("size ... is not available", "size 'x' in zone \"1\" is not available", True),
        ("size ... is not available", "is not available, size", False),
        ("size ... is not available", "size " + "x" * 400 + " is not available", False),
        ("size .. is not", "size " + "x" * 50 + " is not", True),
        ("size .. is not", "size " + "x" * 100 + " is not", False),
        ("size ... is not", "size size " + "x" * 295 + " is not", True),
        ("failed. please try", "Allocation failed. Please try again", True),
    ],
)
def test_a_sentence_is_found_however_it_is_wrapped(words: str, text: str, found: bool) -> None:
    assert Sentence.of(words).inside(squash(text)) is found


@pytest.mark.parametrize("words", ["... x", "x ...", "", " .. "])
def test_a_sentence_neither_begins_nor_ends_with_a_gap(words: str) -> None:
    with pytest.raises(ValueError, match="gap"):
        Sentence.of(words)


@given(st.text(st.sampled_from("aB \n\"'\\\u0130\u201c.x"), max_size=700))
def test_every_squashed_character_has_its_place(text: str) -> None:
    legible = Legible(text)
    for at in range(0, len(legible.squashed), 7):
        place = legible.place(at)
        assert legible.squashed[at] in squash(legible.text[place])


def test_frames_and_escapes_of_the_way_are_undone() -> None:
    assert Legible("\u2502 a\\r\\n\u2502 b\\tc").text == " a\n b c"
    assert Legible("> > x\n> y").text == " x\n y"
    assert Legible("2026-04-28T09:49:25.0000000Z ##[error]x").text == "x"
    assert Legible("==> azure-arm: ERROR: x\n==> azure-arm:").text == "ERROR: x\n"
    assert Legible("\\u0027x\\u0027 \\\\u2502").text == "'x' \u2502"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (r'"code":"A1","message":"says \"x\" and \"y\"."}', "A1", r"says \"x\" and \"y\"."),
        (r"{\"code\":\"A1\",\"message\":\"says \\\"x\\\".\"}", "A1", r"says \\\"x\\\"."),
        ('Code="A1" Message="it is \'x\'" Target="7"', "A1", "it is 'x'"),
        ("Error: Code=A1; Message=no room left", "A1", "no room left"),
        ('"code"=>"A1", "message"=>\n "over there"', "A1", "over there"),
        ("Error type: A1\nError Message: no\nTarget: x", "A1", "no"),
        ("<Code>A1</Code><Message>no</Message>", "A1", "no"),
        ("code: A1\nmessage: >-\n  folded text\nstatus: x", "A1", "folded text"),
    ],
)
def test_a_value_ends_where_its_own_quote_does(text: str, code: str, message: str) -> None:
    found = {pair.kind: pair.value for pair in pairs(text, lowered(text))}
    assert (found["code"], found["message"]) == (code, message)


@pytest.mark.parametrize(
    "text", ["exit code: 1", "StatusCode=409", "status code: 409", "zip code: 1011", "barcode: A1"]
)
def test_other_codes_are_none(text: str) -> None:
    assert pairs(text, lowered(text)) == []


def test_frames_survive_stray_and_lost_brackets() -> None:
    text = "{ A [stdout] ) { B ] } C } D }} {E"
    places = [text.index(mark) for mark in "ABCDE"]
    frames = Frames(text.lower(), places)
    of = dict(zip("ABCDE", map(frames.of, places), strict=True))
    assert of["A"] == of["C"] and of["D"] == 0
    assert frames.inside(of["B"], of["A"]) and not frames.inside(of["A"], of["B"])
    assert not frames.inside(of["E"], of["A"])


def test_wrapped_words_are_joined_only_where_the_line_was_full() -> None:
    full = "x" * 69 + "l"
    assert paragraph(f"{full}\nocation is full") == f"{full}ocation is full"
    assert paragraph("short line\nnext line") == "short line next line"
    assert paragraph(f"{'y' * 60}l\n{'x' * 69}z\nend", column=9).startswith("y" * 60 + "l" + "x")


def test_without_a_vocabulary_the_place_tells_a_code() -> None:
    found = parse('{"error":{"code":"BrandNewFailure","message":"The request failed.","target":"7"}}')
    (one,) = found.errors
    assert (one.code, one.message, one.target, one.sure, one.cut) == (
        "BrandNewFailure",
        "The request failed.",
        "7",
        True,
        False,
    )


def test_a_vocabulary_names_codes_anywhere_and_sentences_without_codes() -> None:
    known = Vocabulary(frozenset({"RackFailedHard"}), (Sentence.of("the rack went away and does not come back"),))
    assert [one.code for one in parse("it ended with RackFailedHard today", known).errors] == ["RackFailedHard"]
    assert parse("it ended with RackFailedHard today").errors == ()
    (one,) = parse("Error: the rack went\naway and does not come back.", known).errors
    assert (one.code, one.message) == ("", "the rack went away and does not come back.")


def test_an_error_knows_what_it_stands_in() -> None:
    text = '{"code":"OuterOne","message":"failed","details":[{"code":"InnerOne","message":"failed too"}]}'
    outer, inner = parse(text).errors
    assert (outer.inside, inner.inside) == ((), (0,))
