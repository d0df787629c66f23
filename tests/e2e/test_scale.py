"""The scale proof, small: `make scale` runs it with 64 racks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ndctl.sim.control import end, start
from ndctl.sim.state import SimDirectory
from tests.bench.scale import prove


def test_deployed_scaled_lost_brought_back_destroyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    directory = SimDirectory(tmp_path / "sim")
    start(directory, {"port": 0, "ssh_port": 0, "pulse_s": 0.01})
    try:
        prove(directory, 2)
    finally:
        end(directory)
