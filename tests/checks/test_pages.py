"""Pages of the checks: right by their schema, complete, with figures that the profiles have."""

from __future__ import annotations

from pathlib import Path

import pytest

from ndctl import profiles
from ndctl.checks import pages as module
from ndctl.checks.pages import page_of, pages, threshold
from ndctl.model.errors import NdctlError


def test_every_threshold_resolves_in_every_profile() -> None:
    for name in profiles.names():
        profile = profiles.load(name)
        for page in pages().values():
            assert "{" not in threshold(page, profile).text, page.check


def test_a_figure_comes_with_unit_and_origin() -> None:
    profile = profiles.load("gb300")
    page = next(iter(pages().values())).model_copy(update={"threshold": "{infiniband.rate_gbps} on each port"})
    told = threshold(page, profile)
    assert told.text == "800 Gb/s on each port" and "2026-08" in told.sources[0]


def test_a_path_that_no_profile_has_is_a_bug() -> None:
    page = next(iter(pages().values())).model_copy(update={"threshold": "{gpu.colour}"})
    with pytest.raises(ValueError, match=r"no .gpu"):
        threshold(page, profiles.load("gb300"))


def test_a_finding_leads_to_its_checks_page() -> None:
    found = page_of("host.clock.offset")
    assert found is not None and (found[0].check, found[1]) == ("host.clock", "offset")
    assert page_of("no.such.check") is None


def test_a_page_that_is_wrong_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.y.yaml").write_text("check: x.y\nmeans: too short\nmeasure: by looking at it\n")
    monkeypatch.setattr(module, "_FOLDER", tmp_path)
    with pytest.raises(NdctlError) as refused:
        module.pages.__wrapped__()
    lines = {error.where.line for error in getattr(refused.value, "errors", [refused.value]) if error.where}
    assert lines >= {2, 3}
