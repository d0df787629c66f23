"""The facts that no document settles: sound as data, and an answer reaches the figure it is meant for."""

from __future__ import annotations

import pytest

from ndctl.checks.pages import filled
from ndctl.model.errors import NdctlError
from ndctl.profiles.loader import load, names
from ndctl.profiles.open_facts import OpenFact, fact, figure, open_facts, with_figure
from ndctl.profiles.schema import Known

FACTS = list(open_facts().values())


@pytest.mark.parametrize("one", FACTS, ids=lambda one: one.id)
def test_each_fits_every_profile_it_is_asked_of(one: OpenFact) -> None:
    for profile in (load(name) for name in names()):
        if not one.applies(profile, static=False):
            continue
        assert "lacks" not in filled(one.fallback, profile)
        if one.sets is not None:
            known = figure(profile, one.sets)
            assert isinstance(known, Known) and one.fits(known.value), (profile.name, one.id)
            assert (one.kind == "yes-no") is isinstance(known.value, bool)


def test_every_wired_figure_can_be_set() -> None:
    wired = [one for one in FACTS if one.sets]
    assert len(wired) >= 4
    for one in wired:
        profile = load("gb300")
        assert one.sets is not None
        before = figure(profile, one.sets)
        assert before is not None
        value = not before.value if one.kind == "yes-no" else before.value + 1
        changed = with_figure(profile, one.sets, value, "first contact", "2026-12-02")
        after = figure(changed, one.sets)
        assert after is not None and after.value == value and type(after.value) is type(before.value)
        assert after.origin == "first contact, 2026-12-02" and after.unit == before.unit
        again = with_figure(changed, one.sets, before.value, before.source, before.date)
        marked = again.model_dump_json(exclude={"infiniband", "host", "gpu", "azure"})
        assert marked == profile.model_dump_json(exclude={"infiniband", "host", "gpu", "azure"})
        assert load("gb300") == profile, "the shared profile was changed"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("port-rate", "800", 800.0),
        ("port-rate", " 400.5 ", 400.5),
        ("single-placement-group", "YES", True),
        ("umad", "no", False),
    ],
)
def test_answers_are_read(name: str, text: str, value: object) -> None:
    assert fact(name).read(text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("port-rate", "800 Gb/s"), ("port-rate", "0"), ("port-rate", "-1"), ("port-rate", "nan"), ("port-rate", "yes"),
        ("port-rate", "1e99"), ("port-rate", ""), ("umad", "1"), ("umad", "perhaps"),
    ],
)  # fmt: skip
def test_what_is_no_answer(name: str, text: str) -> None:
    with pytest.raises(NdctlError, match="is no answer to") as caught:
        fact(name).read(text)
    assert caught.value.exit_code == 2


def test_an_unknown_fact() -> None:
    with pytest.raises(NdctlError, match="no open fact 'port-rat'") as caught:
        fact("port-rat")
    assert "port-rate" in caught.value.hint
