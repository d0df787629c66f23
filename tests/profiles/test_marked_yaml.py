"""The reader that remembers places."""

from __future__ import annotations

from pathlib import Path

import pytest

from ndctl.model.errors import NdctlError, Where
from ndctl.profiles.marked_yaml import Document, leaves, parse, undotted

FILE = Path("some.yaml")


def read(text: str) -> Document:
    return parse(text, FILE, "inventory")


def test_plain_scalars_keep_their_text_and_null_is_none() -> None:
    document = read("a: 1\nb: yes\nc: 2026-12-31\nd: 010\ne:\nf: ~\ng: '~'\nh: 1:30\n")
    assert document.data == {
        "a": "1",
        "b": "yes",
        "c": "2026-12-31",
        "d": "010",
        "e": None,
        "f": None,
        "g": "~",
        "h": "1:30",
    }


def test_places_count_from_one_and_know_their_width() -> None:
    document = read("one: x\ntwo:\n  three: [a, bcd]\n")
    assert document.where_key(("two", "three")) == Where(FILE, 3, 3, 5)
    assert document.where_value(("two", "three", 1)) == Where(FILE, 3, 14, 3)
    assert document.where_key(("two", "nothing", "here")) == Where(FILE, 2, 1, 3)


def test_dotted_text_finds_keys_that_hold_dots() -> None:
    document = read("tags: {a.b: x}\nlist:\n- {k: v}\n")
    assert undotted("tags.a.b", document) == ("tags", "a.b")
    assert undotted("list.0.k", document) == ("list", 0, "k")
    assert undotted("no.such", document) == ("no", "such")


def test_aliases_are_followed_within_limits() -> None:
    assert read("a: &x [1, 2]\nb: *x\n").data["b"] == ["1", "2"]
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
    with pytest.raises(NdctlError, match="aliases are followed"):
        read(bomb)
    with pytest.raises(NdctlError, match="contains itself"):
        read("a: &a {b: *a}\n")


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("a: b\n\tc: d\n", "a tab", 2, 1),
        ("a: b: c\n", "second ': '", 1, 5),
        ("a: [1, 2\nb: 1\n", "a bracket that is never closed", 1, 4),
        ("a: '1\nb: 1\n", "a quote that is never closed", 1, 4),
        ("a: {b: 1 c: 2}\n", "not valid YAML", 1, 11),
        ("a: 1\n--- \nb: 1\n", "second document", 2, 1),
        ("a: *b\n", "undefined alias", 1, 4),
        ('a: "\\UFFFFFFFF"\n', "means nothing", 1, 5),
        ("a: b\x07\n", "control character", 1, 5),
        ("", "is empty", 1, 1),
        ("# only a comment\n", "is empty", 1, 1),
        ("- a\n", "a list where", 1, 1),
        ("word\n", "a single value where", 1, 1),
        ("a: " + "[" * 60 + "]" * 60 + "\n", "levels deep", 1, 44),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(NdctlError) as caught:
        read(text)
    assert message in caught.value.message
    assert caught.value.where is not None
    assert (caught.value.where.line, caught.value.where.column) == (line, column)


def test_nesting_that_breaks_the_parser_itself_is_an_error_too() -> None:
    with pytest.raises(NdctlError, match="nested"):
        read("a: " + "[" * 5000)


def test_duplicate_keys_tags_and_list_keys_are_collected() -> None:
    document = read("a: 1\na: 2\nb: !!int 3\n? [x]\n: y\n")
    assert [error.message.split(",")[0] for error in document.errors] == [
        "'a' is given twice",
        "a tag (!!int) says nothing here",
        "a key must be a word",
    ]
    assert document.data == {"a": "1", "b": "3"}


def test_leaves_enter_lists_of_mappings_only() -> None:
    data = {"a": {"b": 1}, "c": [1, 2], "d": [{"e": 3}], "f": {}}
    assert list(leaves(data)) == [(("a", "b"), 1), (("c",), [1, 2]), (("d", 0, "e"), 3), (("f",), {})]
