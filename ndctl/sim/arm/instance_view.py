"""The instance view of a machine: its statuses, agent, and which interconnect subgroup it stands in."""

from __future__ import annotations

from typing import Any

from ndctl.sim.arm import instances
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.interconnect import subgroup_id
from ndctl.sim.arm.region import Body, Region
from ndctl.sim.arm.store import Record


def instance_view(region: Region, scale_set: ResourceId, set_record: Record, one: Record) -> Body:
    failed = one["state"] == "Failed"
    dead = region.planted.dead(*instances.node_of(region, one))
    if dead == "stopped":
        one = {**one, "power": "stopped"}
    shown: dict[str, Any] = {
        "platformUpdateDomain": 0,
        "platformFaultDomain": 0,
        "computerName": instances.computer_name(set_record, one),
        "osName": "ubuntu",
        "osVersion": "24.04",
        "hyperVGeneration": "V2",
        "statuses": statuses(one),
    }
    if not failed:
        shown["vmAgent"] = agent(one, hung=dead == "hung")
        if one.get("slot"):
            planted = region.planted.subgroup(*instances.node_of(region, one))
            shown["interconnectInstanceView"] = {"interconnectSubgroupId": planted or subgroup_id(one["slot"])}
        if boot_diagnostics_on(set_record):
            shown["bootDiagnostics"] = {}
    return shown


def statuses(one: Record) -> list[Body]:
    state = one["state"].lower()
    error = one.get("error")
    provisioning: Body = {
        "code": f"ProvisioningState/{state}" + (f"/{error['code']}" if error else ""),
        "level": "Error" if error else "Info",
        "displayStatus": "Provisioning failed" if error else f"Provisioning {state}",
        "time": one["created"],
    }
    if error:
        provisioning["message"] = error["message"]
        return [provisioning]
    power = {"code": f"PowerState/{one['power']}", "level": "Info", "displayStatus": f"VM {one['power']}"}
    return [provisioning, power]


def agent(one: Record, *, hung: bool = False) -> Body:
    """Of a VM that hangs Azure has heard nothing for a while; of one that is stopped, nothing since."""
    ready = one["power"] == "running" and not hung
    silent = "VM Agent is unresponsive." if hung else "VM status blob is found but not yet populated."
    code = "ProvisioningState/succeeded" if ready else "ProvisioningState/Unavailable"
    status = {
        "code": code,
        "level": "Info" if ready else "Warning",
        "displayStatus": "Ready" if ready else "Not Ready",
        "message": "Guest Agent is running" if ready else silent,
        "time": one["created"],
    }
    return {"vmAgentVersion": "2.14.0.1", "statuses": [status]}


def summary(region: Region, scale_set: ResourceId, set_record: Record) -> Body:
    """The instance view of the scale set itself: how many instances are in each state."""
    counts: dict[str, int] = {}
    for _, one in instances.of(region, scale_set):
        for status in statuses(one):
            counts[status["code"]] = counts.get(status["code"], 0) + 1
    state = set_record["body"]["properties"]["provisioningState"]
    return {
        "virtualMachine": {"statusesSummary": [{"code": code, "count": n} for code, n in sorted(counts.items())]},
        "statuses": [
            {
                "code": f"ProvisioningState/{state.lower()}",
                "level": "Error" if state == "Failed" else "Info",
                "displayStatus": f"Provisioning {state.lower()}",
                "time": set_record["created"],
            }
        ],
    }


def boot_diagnostics_on(set_record: Record) -> bool:
    profile = set_record["body"]["properties"].get("virtualMachineProfile") or set_record["body"]["properties"]
    return bool(((profile.get("diagnosticsProfile") or {}).get("bootDiagnostics") or {}).get("enabled"))
