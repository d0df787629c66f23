"""What `ndctl sim status` says of a directory."""

from __future__ import annotations

from typing import Any

from ndctl.model.places import rack_name
from ndctl.sim.state import SimDirectory


def summary(directory: SimDirectory) -> dict[str, Any]:
    """state: running, crashed (its process is gone, its state is kept) or none."""
    from ndctl.sim.faults import FaultBook
    from ndctl.sim.world import World

    running = directory.running()
    alive = directory.ours and directory.alive()
    state = "running" if alive and running else "starting" if alive else "crashed" if directory.ours else "none"
    found: dict[str, Any] = {
        "schema": "ndctl.sim-status/1",
        "state": state,
        "directory": str(directory.path),
        "endpoint": running.endpoint if alive and running else "",
        "ssh_port": running.ssh_port if alive and running else None,
        "pid": running.pid if alive and running else None,
        "racks": [],
        "machines": 0,
        "faults": [],
        "next": "ndctl sim up",
    }
    if state == "none":
        return found
    machines = World(directory.path).vms()
    racks: dict[tuple[str, int], int] = {}
    for vm in machines:
        if vm.has_gpus:
            racks[vm.cluster, vm.rack] = racks.get((vm.cluster, vm.rack), 0) + 1
    found["racks"] = [
        {"cluster": cluster, "rack": rack_name(number), "vms": count}
        for (cluster, number), count in sorted(racks.items())
    ]
    found["machines"] = sum(1 for vm in machines if not vm.has_gpus)
    found["faults"] = [
        {"id": one.id, "kind": one.kind, "where": dict(one.where), "blames": one.blames}
        for one in FaultBook(directory.file("faults.json")).list()
    ]
    if alive:
        verb = "validate" if racks else "plan"
        found["next"] = f"ndctl {verb} {directory.file('inventory.yaml')}"
    else:
        found["next"] = f"ndctl sim up --dir {directory.path}  (takes up where it stopped), or ndctl sim down"
    return found
