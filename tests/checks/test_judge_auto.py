"""`ndctl judge auto`: whose text a real capture is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ndctl.checks.judge import judge_bytes, judges

CAPTURES = Path(__file__).parents[1] / "captures"
# An excerpt that shows no word of the tool: to say nothing is right there.
SILENT = {"nvlink-status/04-nvlink-status-empty-no-nvlink.txt"}
CASES = sorted(
    path
    for path in CAPTURES.rglob("*")
    if path.is_file() and path.parent.name in judges() and path.suffix in (".txt", ".json", ".xml", ".log")
)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_capture_is_taken_for_its_own_tool_or_for_nobodys(path: Path) -> None:
    named = judge_bytes(path.parent.name, path.read_bytes())
    detected = judge_bytes("auto", path.read_bytes())
    if named.status.value == "unknown":
        return  # a folder may hold neighbours of its tool
    if f"{path.parent.name}/{path.name}" in SILENT:
        assert detected.status.value == "unknown"
        return
    assert (detected.tool, detected.status) == (named.tool, named.status)


def test_there_are_captures_to_try() -> None:
    assert len(CASES) > 100
