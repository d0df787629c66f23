"""Tests that share a part of the machine run one after another, on one worker."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("groups")
def test_a_group_is_honoured(request: pytest.FixtureRequest) -> None:
    """pytest-xdist spreads tests by what it adds to their ids; a pytest that does not tell it breaks up the groups."""
    if not hasattr(request.config, "workerinput"):
        pytest.skip("one process runs everything")
    assert request.node.nodeid.endswith("@groups")
