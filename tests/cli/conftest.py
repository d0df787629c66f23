"""The program, called in this process as a person would call it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ndctl.cli import main


@dataclass(frozen=True)
class Said:
    """Exit status, stdout (the answer) and stderr (the story)."""

    code: int
    out: str
    err: str


@pytest.fixture
def ndctl(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def call(*arguments: object) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.run([str(one) for one in arguments])
        shown = capsys.readouterr()
        return Said(int(ended.value.code or 0), shown.out, shown.err)

    return call
