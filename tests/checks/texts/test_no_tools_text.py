"""A text that is no tool's blames nothing and clears nothing, whatever a profile expects."""

from __future__ import annotations

import pytest

from ndctl.checks.judge import judge_text, judges
from ndctl.model.status import Status
from ndctl.profiles import load

TEXTS = {
    "words": "hello world\nno such thing here\n",
    "a shell's complaint": "bash: line 1: frobnicate: command not found\n",
    "labels of something else": "Name: somebody\n  Address: somewhere\n    Remark: none\n",
    "versions that differ": "Driver/library version mismatch\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
@pytest.mark.parametrize("profile", [None, "gb300"])
@pytest.mark.parametrize("tool", sorted(judges()))
def test_nothing_is_known_from_it(tool: str, profile: str | None, text: str) -> None:
    found = judge_text(tool, text, load(profile) if profile else None)
    if "mismatch" in text and found.status is Status.FAIL:
        assert all("driver" in f"{f.message} {f.cause}".lower() for f in found.findings)  # it is NVIDIA's own word
        return
    assert found.status is Status.UNKNOWN, [(f.subject, f.message) for f in found.findings]
