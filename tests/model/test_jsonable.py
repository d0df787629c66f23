"""Plain JSON types of any ndctl value: total, deterministic, and never a value that JSON has not."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import PurePosixPath

import pytest
from hypothesis import given

from ndctl.model.jsonable import dumps, jsonable
from ndctl.model.status import Status
from tests.model.builders import json_of, texts, valid_texts


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Pair:
    left: object
    right: object = None


def test_each_kind_of_value() -> None:
    moment = datetime(2026, 12, 2, 3, 20, 11, tzinfo=UTC)
    assert jsonable(Pair(Status.FAIL, (1, 2.5))) == {"left": "fail", "right": [1, 2.5]}
    assert jsonable({Colour.RED: PurePosixPath("/a/b"), 7: moment}) == {"1": "/a/b", "7": "2026-12-02T03:20:11+00:00"}
    assert jsonable(b"ok \xff") == "ok \\xff"
    assert type(jsonable(Status.FAIL)) is str


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_has_not(number: float) -> None:
    assert json.loads(dumps({"value": [number]})) == {"value": [None]}


def test_sets_come_in_one_order_whatever_they_hold() -> None:
    assert jsonable({3, "x", None, 1.5, "a"}) == jsonable({"a", None, 1.5, "x", 3})
    assert jsonable({10, 9, 1}) == [1, 9, 10]
    assert jsonable(frozenset({Pair(2), Pair(1)})) == [{"left": 1, "right": None}, {"left": 2, "right": None}]


def test_a_value_nobody_thought_of_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        jsonable({"a": object()})


@given(json_of(valid_texts))
def test_text_is_ascii_and_reads_back(value: object) -> None:
    text = dumps(value)
    assert text.isascii()
    assert json.loads(text) == value


@given(texts)
def test_lone_surrogates_are_letters(text: str) -> None:
    told = json.loads(dumps([text]))[0]
    told.encode("utf-8")  # a strict reader takes it
    if not any("\ud800" <= one <= "\udfff" for one in text):
        assert told == text


def test_two_surrogates_do_not_become_one_character() -> None:
    assert json.loads(dumps("\ud83d\udd25 \udcff")) == "\\ud83d\\udd25 \\udcff"
