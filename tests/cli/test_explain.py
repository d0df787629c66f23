"""ndctl explain: checks, findings, XIDs and Azure error codes, in text and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from jsonschema import Draft202012Validator

from ndctl.checks.explain import words
from ndctl.report import schemas
from tests.cli.conftest import Said


@pytest.mark.parametrize("asked", ["149", "XID 149", "xid149", "gpu.xid.149"])
def test_an_xid_in_any_spelling(ndctl: Callable[..., Said], asked: str) -> None:
    said = ndctl("explain", *asked.split())
    assert said.code == 0 and said.out.startswith("XID 149 ")
    assert "reason 21, 32, 33, 34, 35, 36, 37: the peer" in said.out and "switch plane" in said.out


def test_a_finding_shows_its_own_meaning_and_the_page_of_its_check(ndctl: Callable[..., Said]) -> None:
    said = ndctl("explain", "host.clock.offset")
    assert said.code == 0
    assert "this finding" in said.out and "farther from NTP time" in said.out
    assert "chronyc" in said.out and "false alarms" in said.out
    assert "host.clock.not-synchronised" in said.out


@pytest.mark.parametrize("asked", ["AllocationFailed", "allocationfailed"])
def test_an_azure_code_says_class_and_next_step(ndctl: Callable[..., Said], asked: str) -> None:
    said = ndctl("explain", asked)
    assert said.code == 0 and said.out.startswith("AllocationFailed ")
    assert "capacity" in said.out and "later, unchanged" in said.out


@pytest.mark.parametrize(("asked", "hint"), [("host.clok", "host.clock"), ("AllocationFaild", "AllocationFailed")])
def test_an_unknown_word_names_those_near_it(ndctl: Callable[..., Said], asked: str, hint: str) -> None:
    said = ndctl("explain", asked)
    assert said.code == 2 and said.out == "" and f"did you mean {hint}" in said.err


@pytest.mark.parametrize("asked", ["nosuchthing", "999"])
def test_what_nothing_is_known_of_is_refused(ndctl: Callable[..., Said], asked: str) -> None:
    said = ndctl("explain", asked)
    assert said.code == 2 and said.out == "" and "hint:" in said.err


def test_without_a_word_everything_is_listed(ndctl: Callable[..., Said]) -> None:
    said = ndctl("explain")
    assert said.code == 0
    for word in ("nvlink.links", "149", "AllocationFailed"):
        assert word in said.out


def test_every_word_is_explained_as_its_schema_says(ndctl: Callable[..., Said]) -> None:
    schema = Draft202012Validator(schemas.load("explain"))
    known = list(words())
    assert len(known) > 150
    for word in (*known[:: max(1, len(known) // 25)], "host.clock", "154", "45", "79", "144"):
        schema.validate(json.loads(ndctl("explain", word, "-o", "json").out))


def test_the_profile_chooses_the_threshold(ndctl: Callable[..., Said]) -> None:
    shown = ndctl("explain", "host.identity", "--profile", "h200").out
    assert "(profile h200)" in shown and "128 vCPUs" not in shown
