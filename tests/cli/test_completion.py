"""Completion: the shell asks the program itself, and it offers only what begins so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def offered(*words: str) -> list[str]:
    """What the program answers a bash that completes the last of these words."""
    line = ["ndctl", *words]
    environment = {
        **os.environ,
        "_NDCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    program = "import sys; sys.argv[0] = 'ndctl'; from ndctl.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "among", "never"),
    [
        (("judge", "nccl"), "nccl-tests", "imex"),
        (("judge", "au"), "auto", "imex"),
        (("sim", "fault", "add", "nvlink"), "nvlink-down", "port-down"),
        (("sim", "fault", "clear", "nvlink"), "nvlink-down", "port-down"),
        (("explain", "nvlink.links.link-d"), "nvlink.links.link-down", "nvlink.links.link-slow"),
        (("explain", "Allocat"), "AllocationFailed", "OverconstrainedAllocationRequest"),
        (("explain", "14"), "149", "79"),
        (("explain", "--profile", "gb"), "gb300", "h200"),
        (("schema", "ru"), "run", "judge"),
    ],
)
def test_what_is_offered(words: tuple[str, ...], among: str, never: str) -> None:
    found = offered(*words)
    assert among in found and never not in found


def test_nothing_is_offered_for_what_does_not_exist() -> None:
    assert offered("explain", "zzz") == []
