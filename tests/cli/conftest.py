"""The program, called in this process as a person would call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from jsonschema import Draft202012Validator

from ndctl.cli import main
from ndctl.report import schemas


@dataclass(frozen=True)
class Said:
    """Exit status, stdout (the answer) and stderr (the story)."""

    code: int
    out: str
    err: str


def assert_as_published(out: str) -> None:
    """An answer in JSON is what its published schema says."""
    if not out.startswith("{"):
        return
    try:
        answer = json.loads(out)
    except ValueError:
        return
    name = str(answer.get("schema", "")).removeprefix("ndctl.").removesuffix("/1")
    if name in schemas.names():
        wrong = [
            f"{one.json_path}: {one.message}" for one in Draft202012Validator(schemas.load(name)).iter_errors(answer)
        ]
        assert wrong == []


@pytest.fixture
def ndctl(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def call(*arguments: object) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.run([str(one) for one in arguments])
        shown = capsys.readouterr()
        assert_as_published(shown.out)
        return Said(int(ended.value.code or 0), shown.out, shown.err)

    return call
