"""The embedded region as a fixture: its own process on free ports, reached through the real SDKs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ndctl.inventory.loader import Loaded, load
from ndctl.sim.control import end, start
from ndctl.sim.faults import FaultBook
from ndctl.sim.state import Running, SimDirectory

_NUMBERS = itertools.count(1)


@dataclass
class Region:
    """A running region. Every `inventory()` is a cluster in a resource group of its own, unless told otherwise."""

    directory: SimDirectory
    running: Running
    faults: FaultBook = field(init=False)

    def __post_init__(self) -> None:
        self.faults = FaultBook(self.directory.file("faults.json"))

    def inventory(self, **changes: Any) -> Path:
        """The region's own inventory with some keys changed; None leaves a key out."""
        import yaml

        told: dict[str, Any] = yaml.safe_load(self.directory.file("inventory.yaml").read_text())
        number = next(_NUMBERS)
        told |= {"cluster": f"c{number}", "resource_group": f"rg-{number}", "racks": 1, "vms_per_rack": 18}
        told = {key: value for key, value in {**told, **changes}.items() if value is not None}
        path = self.directory.file(f"test-{number}.yaml")
        path.write_text(yaml.safe_dump(told, sort_keys=False))
        return path

    def loaded(self, **changes: Any) -> Loaded:
        return load(self.inventory(**changes))

    def change(self, path: Path, **changes: Any) -> Path:
        """The same cluster, asked for differently."""
        import yaml

        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}, sort_keys=False))
        return path

    def billable(self, group: str) -> list[str]:
        """What of a resource group the region still charges for."""
        ledger = json.loads(self.directory.file("ledger.json").read_text())
        return [one["id"] for one in ledger if f"/resourceGroups/{group}/" in one["id"] and not one.get("until")]

    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.directory.file("requests.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def _running_region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    directory = SimDirectory(tmp_path_factory.mktemp("region") / "sim")
    running = start(directory, {"port": 0, "ssh_port": 0, "pulse_s": 0.01})
    try:
        yield Region(directory, running)
    finally:
        end(directory)


@pytest.fixture
def region(_running_region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Region]:
    """A region with no fault planted, and a state directory of the test's own."""
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    _running_region.faults.clear()
    yield _running_region
    _running_region.faults.clear()
