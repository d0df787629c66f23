"""ndctl status: what stands and what was last said of it; one cluster that is down costs the others nothing."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ndctl.model.findings import RackResult, Run
from ndctl.model.status import Verdict
from ndctl.record.store import Store

if TYPE_CHECKING:
    from conftest import Region, Said

    Ndctl = Callable[..., Said]


def name_of(inventory: Path) -> str:
    return str(yaml.safe_load(inventory.read_text())["cluster"])


def validated(cluster: str, verdicts: dict[str, Verdict], run: str, started: str) -> None:
    racks = tuple(RackResult(rack, cluster, verdict) for rack, verdict in verdicts.items())
    with Store() as store:
        store.begin(run, started, "quick", [cluster])
        store.finish(Run(run, started, started, "quick", ({"cluster": cluster},), racks, 0))


def asked(ndctl: Ndctl, *inventories: Path) -> list[dict[str, Any]]:
    clusters: list[dict[str, Any]] = json.loads(ndctl("status", *inventories, "-o", "json").out)["clusters"]
    return clusters


def test_control_plane_and_last_validation_side_by_side(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory(racks=3)
    cluster = name_of(inventory)
    before = ndctl("status", inventory)
    assert before.code == 0 and "3 racks asked for, nothing deployed" in before.out
    assert "rack[01-03]  never validated" in before.out

    region.faults.add("half-allocated", rack=3, count=16)
    assert ndctl("deploy", inventory, "--yes").code == 6
    validated(cluster, {"rack01": Verdict.ACCEPTED, "rack03": Verdict.REJECTED}, "old", "2026-01-01T00:00:00+00:00")
    validated(cluster, {"rack03": Verdict.INCOMPLETE}, "new", "2026-01-02T00:00:00+00:00")
    requests = len(region.requests())
    said = ndctl("status", inventory)
    assert {one["method"] for one in region.requests()[requests:]} <= {"GET", "HEAD", "POST"}
    assert [one["path"] for one in region.requests()[requests:] if one["method"] == "POST"] == [
        one["path"] for one in region.requests()[requests:] if one["path"].endswith("/token")
    ]
    assert said.code == 0
    assert "3 racks: 2 with all VMs running, 1 not" in said.out
    assert "last change: " in said.out and "deploy by" in said.out
    rows = {line.split()[0]: line for line in said.out.splitlines() if line.startswith("  rack")}
    assert "block 18/18" in rows["rack01"] and "running 18/18" in rows["rack01"] and "run old)" in rows["rack01"]
    assert "never validated" in rows["rack02"]
    assert "running 16/18" in rows["rack03"] and "incomplete" in rows["rack03"] and "run new)" in rows["rack03"]

    [told] = asked(ndctl, inventory)
    assert [rack["vms"]["running"] for rack in told["racks"]] == [18, 18, 16]
    assert told["racks"][2]["last_validation"]["verdict"] == "incomplete"
    assert told["racks"][0]["last_validation"]["age_s"] > 0
    assert told["locks"] == [] and told["error"] is None


def test_racks_beyond_the_inventory_and_vms_that_do_not_run(region: Region, ndctl: Ndctl) -> None:
    from ndctl.azure.clients import connect
    from ndctl.inventory.loader import load

    inventory = region.inventory(racks=2)
    assert ndctl("deploy", inventory, "--yes").code == 0
    region.change(inventory, racks=1)
    assert "2 racks: 1 with all VMs running, 1 beyond the inventory\n" in ndctl("status", inventory).out
    loaded = load(inventory)
    clients = connect(loaded)
    sets = clients.compute.virtual_machine_scale_set_vms
    sets.begin_deallocate(clients.resource_group, f"{loaded.inventory.cluster}-rack01", "3").wait(60)
    clients.close()
    said = ndctl("status", inventory)
    assert "running 17/18" in said.out and "running 18, beyond the inventory" in said.out
    assert "2 racks: 0 with all VMs running, 1 not, 1 beyond the inventory\n" in said.out


def test_a_cluster_that_cannot_be_reached_costs_the_others_nothing(
    region: Region, ndctl: Ndctl, tmp_path: Path
) -> None:
    sound = region.inventory()
    assert ndctl("deploy", sound, "--yes").code == 0
    closed = "https://127.0.0.1:9"
    cloud = yaml.safe_load(region.directory.file("inventory.yaml").read_text())["cloud"]
    down = region.inventory(cloud={**cloud, "endpoint": closed, "authority": closed})
    validated(name_of(down), {"rack01": Verdict.ACCEPTED}, "r1", "2026-01-01T00:00:00+00:00")
    (tmp_path / "lab.yaml").write_text("cluster: lab\nprofile: gb300\nstatic:\n- {rack: 7, nodes: 'gpu[01-03]'}\n")
    (tmp_path / "wrong.yaml").write_text("cluster: wrong\nrack: 3\n")
    said = ndctl("status", down, sound, tmp_path / "lab.yaml")
    assert said.code == 4
    assert "not reached" in said.out and "could not be asked: " in said.out and "accepted" in said.out
    assert "running 18/18" in said.out
    assert "lab  static racks   1 rack\n  rack07  never validated" in said.out
    told = asked(ndctl, down, sound, tmp_path / "lab.yaml")
    assert [one["error"] is None for one in told] == [False, True, True]
    assert [one["on_azure"] for one in told] == [True, True, False]
    mixed = ndctl("status", tmp_path / "wrong.yaml", sound)
    assert mixed.code == 2 and "unknown key 'rack'" in mixed.err and "running 18/18" in mixed.out
    assert "wrong   its inventory is wrong\n" in mixed.out and "wrong.yaml:2:1: unknown key 'rack'" in mixed.out
    (tmp_path / "no.yaml").write_text("- not\n")
    told = asked(ndctl, tmp_path / "wrong.yaml", sound, tmp_path / "no.yaml", tmp_path / "lab.yaml")
    assert [one["cluster"] for one in told] == [name_of(sound), "lab", "wrong", "no.yaml"]
    assert [one["error"] is None for one in told] == [True, True, False, False]
    assert "unknown key 'rack'" in told[2]["error"]["message"] and "missing" in told[2]["error"]["message"]


def test_answers_of_first_contact_that_cannot_be_read_stop_neither_status_nor_destroy(
    region: Region, ndctl: Ndctl
) -> None:
    from ndctl.inventory.loader import load
    from ndctl.workflow.state_dir import cluster_dir

    inventory = region.inventory()
    assert ndctl("deploy", inventory, "--yes").code == 0
    loaded = load(inventory)
    (cluster_dir(loaded.inventory, loaded.path) / "first-contact.json").write_text("{")
    for verb in ("plan", "deploy", "validate"):
        assert ndctl(verb, inventory).code == 2
    for said in (ndctl("status", inventory), ndctl("destroy", inventory, "--yes")):
        assert said.code == 0
        assert "what was proven of this cluster cannot be read" in said.err and "going on without it\n" in said.err


def test_who_holds_the_cluster_and_what_azure_still_runs(region: Region, ndctl: Ndctl) -> None:
    from ndctl.inventory.loader import load
    from ndctl.workflow.locks import lock_of
    from ndctl.workflow.state_dir import cluster_dir
    from ndctl.workflow.writing import writing

    inventory = region.inventory()
    assert ndctl("deploy", inventory, "--yes").code == 0
    loaded = load(inventory)
    with writing(loaded, "scale", say=lambda line: None) as held:
        [told] = asked(ndctl, inventory)
        held.line.ended("tried", 0)
    here, there = told["locks"]
    assert here.startswith("here: scale by ") and there.startswith("on Azure: scale by ")
    assert asked(ndctl, inventory)[0]["locks"] == []

    folder = cluster_dir(loaded.inventory, loaded.path)
    holder = {"doing": "deploy", "user": "x", "host": os.uname().nodename, "pid": 2**22 + 1, "since": "now"}
    (folder / "lock").write_text(json.dumps(holder))
    assert lock_of(folder) == ""  # killed: such a process there is not
    (folder / "lock").write_text(json.dumps({**holder, "host": "elsewhere"}))
    assert lock_of(folder).startswith("deploy by x on elsewhere")


@pytest.mark.parametrize("text", [b'{"doing": "de', b"rubbish", b"[]", b"\xff\xfe", b"7"])
def test_a_lock_file_with_rubbish_is_held_by_whoever_holds_it(tmp_path: Path, text: bytes) -> None:
    from ndctl.workflow.locks import cluster_lock, lock_of

    with cluster_lock(tmp_path, "c", "deploy"):
        (tmp_path / "lock").write_bytes(text)  # as while the holder writes its name
        assert lock_of(tmp_path) == "another ndctl"
    (tmp_path / "lock").write_bytes(text)
    assert lock_of(tmp_path) == ""


def test_a_claim_on_azure_whose_process_was_killed_is_told_as_that(region: Region, ndctl: Ndctl) -> None:
    from ndctl.azure.clients import connect
    from ndctl.azure.group_tags import merge_tags
    from ndctl.inventory.loader import load
    from ndctl.workflow.group_lock import _mark, lock_tag
    from ndctl.workflow.lock_holder import Holder

    inventory = region.inventory()
    assert ndctl("deploy", inventory, "--yes").code == 0
    killed = subprocess.Popen(["true"])
    killed.wait(30)
    with closing(connect(load(inventory))) as clients:
        now = clients.clock.now()
        claim = Holder("repair", "root@vm", killed.pid, now, now + 900, _mark(), "ab")
        merge_tags(clients, {lock_tag(name_of(inventory)): claim.text()})
        [told] = asked(ndctl, inventory)
        assert told["locks"] == [f"on Azure: {claim.who}: its process is gone; the next command takes the lock"]
        elsewhere = replace(claim, mark="12345678")
        merge_tags(clients, {lock_tag(name_of(inventory)): elsewhere.text()})
        [told] = asked(ndctl, inventory)
        assert told["locks"] == [f"on Azure: {claim.who}"]
