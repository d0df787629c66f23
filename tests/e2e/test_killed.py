"""`ndctl deploy` killed at ten random points and sent again ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from conftest import Region

RACKS = 2
KILLS = 10
SEED = 20261202
DEADLINE_S = 120.0
# What differs between any two deployments of one inventory: times, ids made at random, and what follows from them.
_OF_ONE_LIFE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.+Z]+")
_ADDRESS = re.compile(r"\b127(?:\.\d+){3}\b")


def deploy(inventory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ndctl", "deploy", str(inventory), "--yes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(inventory: Path) -> str:
    process = deploy(inventory)
    said, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, said
    return said


def asked(region: Region) -> int:
    """How many requests the region has answered so far."""
    return region.directory.file("requests.jsonl").read_bytes().count(b"\n")


def state(region: Region, cluster: str, group: str) -> dict[str, Any]:
    """Resources, instances and racks of a resource group as the region keeps them, without what one life alone has."""
    lines = region.directory.file("arm.jsonl").read_text().splitlines()
    tables: dict[tuple[str, str], Any] = {}
    for entry in map(json.loads, lines):
        tables[entry["t"], entry["k"]] = entry.get("v")
    kept: dict[str, Any] = {}
    for (table, key), record in tables.items():
        if record is None or table not in ("resources", "instances") or f"/{group}/" not in f"{key}/".lower():
            continue
        told = {name: value for name, value in record.items() if name not in ("created", "slot", "instance_id")}
        if table == "instances":
            key = f"{key.partition('#')[0]}#{record['position']}"
        told.get("body", {}).get("properties", {}).pop("rackSlots", None)
        text = json.dumps({f"{table} {key}": told}, sort_keys=True)
        for own, word in ((cluster, "CLUSTER"), (group, "GROUP")):
            text = re.sub(rf"\b{re.escape(own)}\b", word, text, flags=re.IGNORECASE)
        kept |= json.loads(_ADDRESS.sub("ADDRESS", _OF_ONE_LIFE.sub("LIFE", text)))
    return kept


def charged(region: Region, cluster: str, group: str) -> list[tuple[str, str, str, int]]:
    ledger = json.loads(region.directory.file("ledger.json").read_text())
    return sorted(
        (one["id"].rpartition("/")[2].replace(cluster, "CLUSTER"), one["what"], one["size"], one["count"])
        for one in ledger
        if one["until"] is None and f"/{group}/" in one["id"]
    )


def test_ten_kills_leave_no_trace(region: Region) -> None:
    steady, beaten = (region.inventory(racks=RACKS) for _ in range(2))
    names = [yaml.safe_load(one.read_text()) for one in (steady, beaten)]
    before = asked(region)
    finished(steady)
    requests = asked(region) - before

    dice = random.Random(SEED)
    killed = 0
    for _ in range(KILLS):
        # A kill falls somewhere among the requests that a whole deployment takes.
        after = asked(region) + dice.randint(1, requests)
        process = deploy(beaten)
        deadline = time.monotonic() + DEADLINE_S
        while asked(region) < after and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        killed += process.poll() is None
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=DEADLINE_S)
    assert killed >= KILLS // 2, "most kills came too late to interrupt anything"
    said = finished(beaten)
    assert f"{RACKS} racks as planned" in said

    whole, mended = (state(region, one["cluster"], one["resource_group"]) for one in names)
    assert whole.keys() == mended.keys() and len(whole) > RACKS * 18
    assert {key: value for key, value in mended.items() if whole[key] != value} == {}
    ledgers = [charged(region, one["cluster"], one["resource_group"]) for one in names]
    assert ledgers[0] == ledgers[1]
    assert sum(count for _, what, _, count in ledgers[1] if what == "scale set instances") == RACKS * 18
    # Nothing was charged twice on the way either: no machine came and went.
    ledger = json.loads(region.directory.file("ledger.json").read_text())
    ended = [one for one in ledger if one["until"] and f"/{names[1]['resource_group']}/" in one["id"]]
    assert [one["what"] for one in ended if one["count"] >= 18 and one["what"] == "scale set instances"] == []
