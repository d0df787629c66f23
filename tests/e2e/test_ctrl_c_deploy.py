"""Ctrl-C during `ndctl deploy`: the first stops waiting and says how to go on, a second leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ndctl.azure.clients import connect
from ndctl.azure.group_tags import read_tags
from ndctl.inventory.loader import load
from ndctl.workflow.audit import audit_lines
from ndctl.workflow.group_lock import lock_tag
from ndctl.workflow.state_dir import cluster_dir

if TYPE_CHECKING:
    from conftest import Region

DEADLINE_S = 120.0


def watching(region: Region, inventory: Path) -> subprocess.Popen[str]:
    """A deploy that has sent its rack and waits for it."""
    cluster = load(inventory).inventory.cluster
    process = subprocess.Popen(
        [sys.executable, "-m", "ndctl", "deploy", str(inventory), "--yes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        if any(f"{cluster}-rack01/operations" in one["path"] for one in region.requests()[-200:]):
            return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.communicate()[1])


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_the_first_stops_waiting_and_the_next_deploy_goes_on(region: Region, sent: signal.Signals) -> None:
    inventory = region.inventory()
    loaded = load(inventory)
    region.faults.add("lro-never-ends", rack=1)
    process = watching(region, inventory)
    process.send_signal(sent)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, err
    assert "rack01  still running in Azure" in out
    ended = audit_lines(cluster_dir(loaded.inventory, inventory))[-1]
    assert ended["exit_code"] == 130 and f"interrupted: Azure goes on with what was sent (run {ended['run']})" in out
    assert f"next: ndctl deploy {inventory}   (goes on where this stopped)" in out
    own = connect(loaded)
    assert lock_tag(loaded.inventory.cluster) not in (read_tags(own) or {})
    own.close()

    region.faults.clear()
    again = subprocess.run(
        [sys.executable, "-m", "ndctl", "deploy", str(inventory), "--yes"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert "1 rack as planned" in again.stdout


def test_a_second_one_leaves(region: Region) -> None:
    inventory = region.inventory()
    region.faults.add("lro-never-ends", rack=1)
    process = watching(region, inventory)
    region.faults.add("throttle", count=100000, retry_after=60)  # so that nothing ends by itself
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130 and time.monotonic() - began < 30, err
    assert "again to leave at once" in err and "Traceback" not in err
