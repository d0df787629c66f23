"""The scale proof on `ndctl sim`: 64 racks (1,152 VMs) deployed, one more, one lost and brought back, a node replaced
by another VM, all destroyed.

`python -m tests.bench.scale [RACKS]` runs the program as a person does, holds every figure of the region's ledger to
what must be there, and says time, memory and ARM calls of each step. The repaired node's rack alone is asked over SSH.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from ndctl.azure.clients import connect
from ndctl.inventory.loader import load
from ndctl.render import names
from ndctl.sim.control import end, start
from ndctl.sim.state import SimDirectory

VMS, CLIENT_MEMORY_MB, STEP_DEADLINE_S = 18, 500, 600
CLUSTER, GROUP = "big", "rg-big"


class Wrong(Exception):
    """A figure is not what it must be."""


class Proof:
    """One region and one inventory in it."""

    def __init__(self, directory: SimDirectory, racks: int) -> None:
        self.directory = directory
        told = yaml.safe_load(directory.file("inventory.yaml").read_text())
        self.told = {**told, "cluster": CLUSTER, "resource_group": GROUP, "vms_per_rack": VMS}
        self.inventory = directory.file("big.yaml")
        self.ask_for(racks)

    def ask_for(self, racks: int) -> None:
        self.inventory.write_text(yaml.safe_dump({**self.told, "racks": racks}, sort_keys=False))

    def run(self, verb: str, *options: str) -> dict[str, Any]:
        """The answer as JSON. `options` may begin with arguments. Wrong when it ends with anything but 0, or its memory
        passes the bar.
        """
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "ndctl", verb, str(self.inventory), "--yes", "-o", "json", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(timeout=STEP_DEADLINE_S)
        finally:
            process.kill()
        if process.returncode != 0:
            raise Wrong(f"{verb} ended with {process.returncode}:\n{err[-2000:]}")
        calls = next((line for line in err.splitlines() if line.startswith("ARM calls: ")), "")
        if not calls and verb != "repair":
            raise Wrong(f"{verb} does not say its ARM calls")
        # Of all children so far: it can only be too high for this one.
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        print(f"{verb:8} {time.monotonic() - began:5.1f} s  client {peak} MB  {calls}", flush=True)
        if peak >= CLIENT_MEMORY_MB:
            raise Wrong(f"{verb} took {peak} MB, the bar is {CLIENT_MEMORY_MB}")
        found: dict[str, Any] = json.loads(out)
        return found

    def running(self) -> dict[str, dict[str, int]]:
        """What is charged for now: {"scale set instances": {"big-rack01": 18, ...}, ...}"""
        found: dict[str, dict[str, int]] = {}
        for one in json.loads(self.directory.file("ledger.json").read_text()):
            if one["until"] is None:
                found.setdefault(one["what"], {})[one["id"].rpartition("/")[2]] = one["count"]
        return found

    def charged_in_turn(self, name: str) -> list[int]:
        """How many instances of a scale set were charged for, one figure after the other."""
        told = json.loads(self.directory.file("ledger.json").read_text())
        return [
            one["count"]
            for one in told
            if one["what"] == "scale set instances" and one["id"].rpartition("/")[2] == name
        ]

    def hold_ledger(self, racks: int) -> None:
        """Wrong unless exactly so many whole racks are charged for."""
        now = self.running()
        wanted = {names.scale_set(CLUSTER, rack): VMS for rack in range(1, racks + 1)}
        for what in ("scale set instances", "interconnect block"):
            if now.get(what, {}) != wanted:
                raise Wrong(f"{what}: {len(now.get(what, {}))} entries, {sum(now.get(what, {}).values())} VMs")
        print(f"         ledger: {racks} racks, {sum(wanted.values())} VMs, {racks} blocks", flush=True)

    def lose(self, rack: int) -> None:
        """Somebody deletes a rack's scale set."""
        clients = connect(load(self.inventory))
        name = names.scale_set(CLUSTER, rack)
        clients.compute.virtual_machine_scale_sets.begin_delete(GROUP, name).wait(STEP_DEADLINE_S)
        clients.close()
        if name in self.running()["scale set instances"]:
            raise Wrong(f"{name} is still charged for")


def prove(directory: SimDirectory, racks: int) -> None:
    """Raises Wrong."""
    proof = Proof(directory, racks)
    fates = [one["status"] for one in proof.run("deploy")["racks"]]
    if fates != ["deployed"] * racks:
        raise Wrong(f"deploy: {fates}")
    proof.hold_ledger(racks)

    proof.ask_for(racks + 1)
    told = proof.run("deploy")
    if [one["status"] for one in told["racks"]] != ["unchanged"] * racks + ["deployed"]:
        raise Wrong("scaling by one rack touched others")
    if told["calls"]["by_azure"]["Microsoft.Compute/virtualMachineScaleSets"] != 1:
        raise Wrong(f"scaling by one rack sent {told['calls']['by_azure']}")
    proof.hold_ledger(racks + 1)

    lost = racks // 2
    proof.lose(lost)
    again = {one["name"]: one["status"] for one in proof.run("deploy")["racks"]}
    if [name for name, fate in again.items() if fate == "deployed"] != [f"rack{lost:02d}"]:
        raise Wrong(f"bringing back rack {lost}: {again}")
    proof.hold_ledger(racks + 1)

    replace_node(proof, "rack01", racks + 1)

    gone = proof.run("destroy")
    left = proof.running()
    if left or not gone["resource_group"]["deleted"]:
        raise Wrong(f"left behind: {left}")
    print("         ledger: nothing is charged for", flush=True)


def replace_node(proof: Proof, rack: str, racks: int) -> None:
    """One node's VM is deleted and its scale set grown again. Raises Wrong."""
    scale_set = f"{CLUSTER}-{rack}"
    before = proof.charged_in_turn(scale_set)
    told = proof.run("repair", f"{rack}-n05", "--action", "replace")
    (node,) = told["nodes"]
    if node["before"]["vm_id"] == node["after"]["vm_id"] or not node["validated"]:
        raise Wrong(f"repair: {node}")
    if any(run["racks"] != {rack: "accepted"} for run in told["runs"]):
        raise Wrong(f"repair: {told['runs']}")
    during = proof.charged_in_turn(scale_set)[len(before) :]
    if during != [VMS - 1, VMS]:
        raise Wrong(f"{scale_set} was charged for {during} instances in turn, where one goes and one comes")
    print(f"         ledger: {scale_set} {before[-1]}, then {', then '.join(map(str, during))} VMs", flush=True)
    proof.hold_ledger(racks)


def main(racks: int) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ndctl-scale-") as folder:
        os.environ["NDCTL_STATE_DIR"] = str(Path(folder) / "state")
        directory = SimDirectory(Path(folder) / "sim")
        running = start(directory, {"port": 0, "ssh_port": 0, "pulse_s": 0.02})
        try:
            prove(directory, racks)
            status = Path(f"/proc/{running.pid}/status")
            kept = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
            print(
                f"{racks} racks in {time.monotonic() - began:.0f} s"
                + (f", region {int(kept[1]) // 1024} MB" if kept else "")
            )
        except Wrong as error:
            print(f"WRONG: {error}", file=sys.stderr)
            return 1
        finally:
            end(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 64))
