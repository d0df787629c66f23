"""`ndctl bootstrap` as a process of its own, its event stream read line by line and held against the schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from ndctl.report import schemas

LONGEST_S = 120.0
EVENT = Draft202012Validator(schemas.load("event"))
ANSWER = Draft202012Validator(
    {**schemas.load("bootstrap"), "$ref": "#/$defs/cluster", "required": [], "properties": {}}
)
Event = dict[str, Any]


class Bootstrap:
    """Every line of its stream in `events`, each checked as it comes."""

    def __init__(self, *arguments: object, own_group: bool = False) -> None:
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ndctl", "bootstrap", *map(str, arguments), "--yes", "--events", "jsonl"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=own_group,
            env={**os.environ, "NO_COLOR": "1"},
        )
        self.events: list[Event] = []
        self._end = threading.Timer(LONGEST_S, self.process.kill)
        self._end.start()

    def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The first event that is wanted, as soon as it is written."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._take(line)
            if wanted(self.events[-1]):
                return self.events[-1]
        raise AssertionError(f"never came: {self.end()[1]}")

    def end(self) -> tuple[int, str]:
        """(exit status, what it said on stderr)."""
        assert self.process.stdout is not None
        with self.process.stdout, self._said:
            for line in self.process.stdout:
                if line.endswith("\n"):  # who is killed may leave half a line
                    self._take(line)
            code = self.process.wait(LONGEST_S)
            self._end.cancel()
            self._said.seek(0)
            return code, self._said.read()

    def _take(self, line: str) -> None:
        event: Event = json.loads(line)
        assert [error.message for error in EVENT.iter_errors(event)] == []
        assert event.get("cluster") and event.get("run"), line
        if event["type"] == "result":
            assert [f"{error.json_path}: {error.message}" for error in ANSWER.iter_errors(event["data"])] == []
        self.events.append(event)

    def results(self) -> dict[str, Any]:
        """Cluster -> its answer."""
        return {one["cluster"]: one["data"] for one in self.events if one["type"] == "result"}

    def stages(self, cluster: str) -> dict[str, str]:
        return {one["stage"]: one["status"] for one in self.results()[cluster]["stages"]}


def linked(folder: Path, region: Path, *inventories: Path) -> Path:
    """A folder as people keep one: the inventories, and beside them what they name."""
    folder.mkdir()
    for file in (
        "ca.pem",
        "identity.json",
        "federated.jwt",
        "id_ed25519",
        "id_ed25519.pub",
        *(one.name for one in inventories),
    ):
        (folder / file).symlink_to(region / file)
    return folder
