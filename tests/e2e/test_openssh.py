"""`ndctl validate` against a real OpenSSH server: several loopback nodes, one of them broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ndctl.sim.nodes.forced_command import served
from ndctl.sim.world import World
from tests.ssh import sshd

NODES = 6


@pytest.mark.xdist_group("openssh")
def test_validate_over_openssh_names_the_broken_node(tmp_path: Path) -> None:
    sshd.require()
    world = World(tmp_path / "world")
    addresses = [f"127.77.1.{10 + index}" for index in range(1, NODES + 1)]
    for index, address in enumerate(addresses, 1):
        world.add_vm(
            "real", 1, index, vmss="real-rack01", instance_id=str(index), address=address,
            admin_user="azureuser", admin_key="ssh-ed25519 AAAA unused",
        )  # fmt: skip
    world.faults.add("port-half-rate", node="rack01-n04", port="mlx5_ib2")
    with served(world, tmp_path / "served") as command:
        server = sshd.start(tmp_path / "sshd", nodes=addresses, force_command=str(command))
        try:
            inventory = tmp_path / "real.yaml"
            inventory.write_text(
                f"cluster: real\nprofile: gb300\nssh: {{user: {server.user}, port: {server.port}, "
                f"private_key: {server.client_key}, known_hosts: {server.known_hosts}}}\n"
                f"static:\n  - {{rack: 1, nodes: [{', '.join(addresses)}]}}\n"
            )
            done = subprocess.run(
                [sys.executable, "-m", "ndctl", "validate", str(inventory), "--level", "quick", "-o", "json"],
                env={**os.environ, "NDCTL_STATE_DIR": str(tmp_path / "state")},
                capture_output=True,
                text=True,
                timeout=180,
                check=False,
            )
        finally:
            server.stop()
    assert done.returncode == 7, done.stderr
    rack = json.loads(done.stdout)["racks"][0]
    assert [node["outcome"] for node in rack["nodes"]] == ["ok"] * NODES
    standing = [f for f in rack["findings"] if f["status"] in ("fail", "warn", "unknown") and not f["caused_by"]]
    assert {(f["node"], f["subject"].split()[0]) for f in standing} == {("rack01-n04", "mlx5_ib2")}
    assert rack["usable_nodes"] == [f"rack01-n{n:02d}" for n in range(1, NODES + 1) if n != 4]
