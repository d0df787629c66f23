"""Every command of the README is run, in its order, as a reader would type it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PASTE = ROOT / "tests" / "captures" / "nccl-tests"
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def commands() -> list[tuple[list[str], int]]:
    """(argument list, expected exit status) of each `$ …` line; a line `[exit N]` speaks of the one before."""
    found: list[tuple[list[str], int]] = []
    for block in _BLOCK.findall((ROOT / "README.md").read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((shlex.split(line[2:]), 0))
            elif match := re.match(r"\[exit (\d+)\]", line):
                found[-1] = (found[-1][0], int(match[1]))
    return found


@pytest.mark.xdist_group("readme")
def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    capture = next(iter(sorted(PASTE.glob("*.txt"))))
    (tmp_path / "slack-paste.txt").write_text(capture.read_text(errors="replace"))
    example = (ROOT / "README.md").read_text().partition("```yaml\ndisabled_checks")[2].partition("```")[0]
    (tmp_path / "lab.yaml").write_text(
        f"cluster: lab\nprofile: gb300\nstatic:\n  - {{rack: 1, nodes: [127.0.0.1]}}\ndisabled_checks{example}"
    )
    environment = {**os.environ, "NDCTL_STATE_DIR": str(tmp_path / "state"), "NO_COLOR": "1"}
    ran = 0
    try:
        for words, expected in commands():
            assert words[0] in ("ndctl", "sed"), words
            done = subprocess.run(
                [sys.executable, "-m", "ndctl", *words[1:]] if words[0] == "ndctl" else words,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            allowed = {0, 7, 8} if words[1] == "judge" else {expected}
            assert done.returncode in allowed, f"{shlex.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            assert "Traceback" not in done.stderr
            ran += 1
    finally:
        for region in ("sim", "east", "west"):
            subprocess.run(
                [sys.executable, "-m", "ndctl", "sim", "down", "--dir", region],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                timeout=120,
                check=False,
            )
    assert ran > 15


def test_the_readme_names_every_verb() -> None:
    from ndctl.cli.main import VERBS

    text = (ROOT / "README.md").read_text()
    assert [verb for verb in VERBS if f"ndctl {verb}" not in text] == []
