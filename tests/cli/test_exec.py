"""`ndctl exec`: what is wrong with a call is told before anything is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody listens there: a call that gets through to a node ends with 8."""
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "lab.yaml"
    path.write_text("cluster: lab\nprofile: gb300\nssh: {port: 1}\nstatic:\n  - {rack: 1, nodes: ['127.0.0.[1-2]']}\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there is no command to run"),
        (["--", "  "], "there is no command to run"),
        (["--timeout", "0", "--", "true"], "--timeout"),
        (["--timeout", "1800", "--", "true"], "--timeout"),
        (["--fanout", "0", "--", "true"], "--fanout"),
        (["--pick", "0", "--", "true"], "--pick"),
        (["--nodes", "rack01-n[01", "--", "true"], "is no node set"),
        (["--exclude", "@nobody", "--", "true"], "there is no group @nobody; there are @all, @failed, @incomplete"),
        (["--nodes", "rack09-n01", "--", "true"], "lab has no node rack09-n01"),
        (["--rack", "x", "--", "true"], "'x' is no rack number or range"),
        (["--rack", "7", "--", "true"], "lab has no rack 7"),
        (["--nodes", "@failed", "--", "true"], "the last recorded validation of lab, and there is none"),
        (["--exclude", "@all", "--", "true"], "nothing to do: --exclude @all leaves no node"),
        (["--diff", "-o", "json", "--", "true"], "--diff"),
    ],
)
def test_usage_errors(arguments: list[str], said: str, inventory: Path, ndctl: Callable[..., object]) -> None:
    told = ndctl("exec", inventory, *arguments)
    assert told.code == 2, told  # type: ignore[attr-defined]
    assert said in told.err and told.out == ""  # type: ignore[attr-defined]


def test_a_record_that_is_not_there_is_named(inventory: Path, tmp_path: Path, ndctl: Callable[..., object]) -> None:
    told = ndctl("exec", inventory, "--nodes", "@failed", "--record", tmp_path / "none.sqlite", "--", "true")
    assert told.code == 2 and "none.sqlite" in told.err  # type: ignore[attr-defined]


def test_how_many_nodes_is_said_first(inventory: Path, ndctl: Callable[..., object]) -> None:
    told = ndctl("exec", inventory, "--exclude", "rack01-n02", "--", "true")
    assert told.err.startswith("lab  1 of 2 nodes: rack01-n01\n")  # type: ignore[attr-defined]
    assert told.code == 8 and "---- rack01-n01  refused: " in told.out  # type: ignore[attr-defined]
