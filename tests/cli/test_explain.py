"""ndctl explain: checks, findings, XIDs and Azure error codes, in text and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from jsonschema import Draft202012Validator

from ndctl.checks.explain import EXPLAIN_SCHEMA, explain, words
from ndctl.model.jsonable import jsonable
from ndctl.profiles import load
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
    assert "farther from NTP time" in said.out.splitlines()[0] and "other findings" in said.out
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


def test_a_text_judges_shorter_name_of_a_finding_leads_to_the_same_page(ndctl: Callable[..., Said]) -> None:
    assert ndctl("explain", "nvlink.link-down").out == ndctl("explain", "nvlink.links.link-down").out
    assert ndctl("explain", "kernel.xid-79").out == ndctl("explain", "79").out


def test_a_word_that_is_none_of_a_checks_findings_says_so(ndctl: Callable[..., Said]) -> None:
    said = ndctl("explain", "host.clock.ofset")
    assert said.code == 0 and said.out.startswith("host.clock ") and "'ofset' is none of its findings" in said.out


def test_the_finding_of_an_xid_that_no_catalogue_has_leads_to_its_check(ndctl: Callable[..., Said]) -> None:
    said = ndctl("explain", "gpu.xid.999")
    assert said.code == 0 and said.out.startswith("gpu.xid ")
    assert "XID 999 is in no catalogue that ndctl knows" in said.out


@pytest.mark.parametrize(
    ("xid", "alone", "action"),
    [("79", "a fault", "replace-and-report"), ("13", "told, no fault", "none"), ("63", "a warning", "watch"),
     ("145", "a fault when it is Fatal, else a warning", "investigate")],
)  # fmt: skip
def test_an_xid_says_what_it_counts_for(ndctl: Callable[..., Said], xid: str, alone: str, action: str) -> None:
    facts = json.loads(ndctl("explain", xid, "-o", "json").out)["facts"]
    assert (facts["alone it is"], facts["action"]) == (alone, action)
    assert "catalogue, 2026" in facts["source"]


def test_the_link_events_say_how_they_are_read(ndctl: Callable[..., Said]) -> None:
    for xid in range(144, 151):
        assert "units: SAW 144" in ndctl("explain", xid).out


def test_completion_offers_what_begins_so() -> None:
    from ndctl.cli.explain import _completions

    assert "host.clock.offset" in _completions("host.cl") and "AllocationFailed" in _completions("allocationf")
    assert _completions("zzz") == []


def test_without_a_word_everything_is_listed(ndctl: Callable[..., Said]) -> None:
    said = ndctl("explain")
    assert said.code == 0
    answer = json.loads(ndctl("explain", "-o", "json").out)
    assert answer["kind"] == "list" and not list(Draft202012Validator(schemas.load("explain")).iter_errors(answer))
    for word in ("nvlink.links", "149", "AllocationFailed"):
        assert word in said.out


def test_every_word_is_explained_as_its_schema_says(ndctl: Callable[..., Said]) -> None:
    schema = Draft202012Validator(schemas.load("explain"))
    known = list(words())
    assert len(known) > 150
    profile = load("gb300")
    for word in known:
        schema.validate({"schema": EXPLAIN_SCHEMA, **jsonable(explain(word, profile))})
    schema.validate(json.loads(ndctl("explain", "host.clock", "-o", "json").out))


def test_the_profile_chooses_the_threshold(ndctl: Callable[..., Said]) -> None:
    shown = ndctl("explain", "host.identity", "--profile", "h200").out
    assert "(profile h200)" in shown and "128 vCPUs" not in shown
