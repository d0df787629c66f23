"""The ledger: everything that would cost money on Azure, from when to when, in ledger.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ndctl.sim.arm.region import Region
from ndctl.sim.arm.work import timestamp

_FLAT = {
    "microsoft.network/natgateways": "NAT gateway",
    "microsoft.network/publicipaddresses": "public IP address",
    "microsoft.compute/disks": "managed disk",
    "microsoft.compute/virtualmachines": "virtual machine",
    "microsoft.compute/interconnectblocks": "interconnect block",
    "microsoft.compute/virtualmachinescalesets": "scale set instances",
}


class Ledger:
    """Entries {id, what, size, count, since, until}; `until` is null while it runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        if not path.exists():
            self._write()

    def update(self, region: Region) -> None:
        """Close what ended or changed, open what is new."""
        now = _running(region)
        changed = False
        for entry in self._entries:
            if entry["until"] is None and now.get(entry["id"]) != (entry["what"], entry["size"], entry["count"]):
                entry["until"], changed = timestamp(), True
        open_ids = {entry["id"] for entry in self._entries if entry["until"] is None}
        for resource_id, (what, size, count) in now.items():
            if resource_id not in open_ids:
                self._entries.append(
                    {"id": resource_id, "what": what, "size": size, "count": count, "since": timestamp(), "until": None}
                )
                changed = True
        if changed:
            self._write()

    def _write(self) -> None:
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(self._entries, indent=1) + "\n")
        temporary.replace(self._path)


def _running(region: Region) -> dict[str, tuple[str, str, int]]:
    found: dict[str, tuple[str, str, int]] = {}
    machines: dict[str, int] = {}
    for _, one in region.store.scan("instances"):
        if one["state"] == "Succeeded" and one["power"] != "deallocated":
            machines[one["vmss"]] = machines.get(one["vmss"], 0) + 1
    for _, record in region.store.scan("resources"):
        what = _FLAT.get(record["type"].lower())
        body = record["body"]
        if what is None or body["properties"].get("provisioningState") in ("Creating", None):
            continue
        size, count = str((body.get("sku") or {}).get("name", "")), 1
        if record["type"].lower() == "microsoft.compute/virtualmachines":
            size = body["properties"]["hardwareProfile"]["vmSize"]
        elif what == "interconnect block":
            count = int(body["properties"].get("currentCapacity", 0))
        elif what == "scale set instances":
            count = machines.get(record["id"], 0)
        if count:
            found[record["id"]] = (what, size, count)
    return found
