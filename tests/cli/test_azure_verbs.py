"""plan, deploy, nodes and destroy as a person types them, against the embedded region."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from conftest import Region, Said

    Ndctl = Callable[..., Said]


def test_the_whole_life_of_a_cluster(region: Region, ndctl: Ndctl, tmp_path: Path) -> None:
    inventory, plan = region.inventory(racks=2), tmp_path / "plan.json"
    cluster = yaml.safe_load(inventory.read_text())["cluster"]

    planned = ndctl("plan", inventory, "--out", plan)
    assert planned.code == 0
    assert "foundation: create   racks: 0 no change · 2 create · 0 modify · 0 delete" in planned.out
    assert "18 × Standard_ND128isr_GB300_v6" in planned.out
    assert f"ndctl deploy {inventory} --plan {plan}" in planned.out
    assert ndctl("plan", inventory, "--detailed-exitcode").code == 9

    deployed = ndctl("deploy", inventory, "--plan", plan)
    assert deployed.code == 0, deployed.err
    assert "rack01-rack02  deployed   18 VMs each" in deployed.out
    assert deployed.out.endswith("2 racks as planned\n")

    hosts = ndctl("nodes", inventory, "-o", "hostfile")
    assert hosts.code == 0 and len(set(hosts.out.splitlines())) == 36
    assert {line.partition(" ")[2] for line in hosts.out.splitlines()} == {"slots=4"}
    told = json.loads(ndctl("nodes", inventory, "-o", "json").out)
    assert told["schema"] == "ndctl.nodes/1"
    assert [node["name"] for node in told["racks"][1]["nodes"]] == [f"rack02-n{n:02d}" for n in range(1, 19)]
    assert all(node["subgroup"] and node["vm_id"] and node["state"] == "running" for node in told["racks"][0]["nodes"])
    assert len({node["subgroup"] for node in told["racks"][0]["nodes"]}) == 1

    stale = ndctl("deploy", inventory, "--plan", plan)
    assert stale.code == 10 and "what is live in Azure changed" in stale.err
    again = ndctl("deploy", inventory)
    assert (again.code, again.out) == (0, "rack01-rack02  unchanged\n2 racks as planned\n")

    assert ndctl("destroy", inventory).code == 2
    gone = ndctl("destroy", inventory, "--yes", "-o", "json")
    assert gone.code == 0, gone.err
    assert json.loads(gone.out)["resource_group"]["deleted"] is True
    group = yaml.safe_load(inventory.read_text())["resource_group"]
    assert region.billable(group) == []
    told = ndctl("destroy", inventory, "--yes").out
    assert told == f"{cluster}: nothing to delete, resource group {group} does not exist\n"
    empty = ndctl("nodes", inventory)
    assert empty.code == 8 and "rack01: 0 of 18 nodes have an address" in empty.err


def test_one_rack_without_capacity_and_one_with_half(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory(racks=3)
    region.faults.add("allocation-failure", rack=2)
    region.faults.add("half-allocated", rack=3, count=16)
    first = ndctl("deploy", inventory, "--yes")
    assert first.code == 6, first.err
    assert "rack01  deployed   18 VMs" in first.out
    assert "rack02  failed. AllocationFailed (capacity, may be tried again)" in first.out
    assert "rack03  partial: 16 of 18 VMs. instances 16, 17: AllocationFailed" in first.out
    assert 'innermost: "Allocation failed. We do not have sufficient capacity' in first.out
    assert "1 rack as planned, 1 failed, 1 partial" in first.out

    before = len(region.requests())
    region.faults.clear()
    second = ndctl("deploy", inventory, "--yes", "-o", "json")
    told = json.loads(second.out)
    assert second.code == told["exit_code"] == 0
    assert [(rack["status"], rack["deployed_vms"]) for rack in told["racks"]] == [
        ("unchanged", 18),
        ("deployed", 18),
        ("deployed", 18),
    ]
    puts = [one["path"] for one in region.requests()[before:] if one["method"] == "PUT"]
    assert puts and not [path for path in puts if "rack01" in path or "foundation" in path]


def test_all_racks_without_capacity(region: Region, ndctl: Ndctl) -> None:
    region.faults.add("allocation-failure", rack=1)
    assert ndctl("deploy", region.inventory(), "--yes").code == 5


def test_quota_is_refused_before_anything_is_sent(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory()
    assert ndctl("deploy", inventory, "--yes").code == 0
    region.change(inventory, racks=2)
    region.faults.add("quota-exceeded", limit=128)
    planned = ndctl("plan", inventory, "-o", "json")
    told = json.loads(planned.out)
    assert planned.code == told["exit_code"] == 4
    assert [rack["action"] for rack in told["racks"]] == ["no change", "refused"]
    assert told["racks"][1]["fault"]["class"] == "quota" and told["racks"][1]["fault"]["retryable"] is False


def test_racks_beyond_the_inventory_are_shown_and_left_alone(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory(racks=2)
    assert ndctl("deploy", inventory, "--yes").code == 0
    region.change(inventory, racks=1)
    planned = ndctl("plan", inventory)
    assert "1 no change · 0 create · 0 modify · 0 delete · 1 beyond the inventory" in planned.out
    assert "rack02    live, but beyond the racks of the inventory" in planned.out
    assert ndctl("deploy", inventory).out == "rack01  unchanged\n1 rack as planned\n"
    assert len(ndctl("nodes", inventory, "-o", "hostfile").out.splitlines()) == 36


def test_a_plan_is_stale_when_the_inventory_moves(region: Region, ndctl: Ndctl, tmp_path: Path) -> None:
    inventory, plan = region.inventory(), tmp_path / "plan.json"
    ndctl("plan", inventory, "--out", plan)
    region.change(inventory, tags={"owner": "fabric"})
    stale = ndctl("deploy", inventory, "--plan", plan)
    assert stale.code == 10
    assert "the inventory and the rendered templates" in stale.err and "nothing was deployed" in stale.err
    other = region.inventory()
    assert ndctl("deploy", other, "--plan", plan).code == 2


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "ndctl.run/1"}', "[]", '{"schema": "ndctl.plan/1"}'])
def test_what_is_no_plan_is_said(region: Region, ndctl: Ndctl, tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    said = ndctl("deploy", region.inventory(), "--plan", tmp_path / "plan.json")
    assert said.code == 2 and "not a plan that ndctl wrote" in said.err


@pytest.mark.parametrize("out", ["", "-"])
def test_a_plan_is_written_to_a_file_of_its_own_or_azure_is_not_asked(
    region: Region, ndctl: Ndctl, out: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    inventory = region.inventory()
    before, requests = inventory.read_bytes(), len(region.requests())
    over = ndctl("plan", inventory, "--out", inventory)
    assert over.code == 2 and "not a plan that ndctl wrote" in over.err and inventory.read_bytes() == before
    said = ndctl("plan", inventory, "--out", out)
    assert said.code == 2 and f"--out '{out}'" in said.err and "-o json" in said.err
    assert len(region.requests()) == requests and not [one for one in tmp_path.iterdir() if one.is_file()]


def test_without_a_terminal_consent_is_an_option(region: Region, ndctl: Ndctl) -> None:
    said = ndctl("deploy", region.inventory(), "-o", "json")
    assert (said.code, said.out) == (2, "")
    assert "--yes" in said.err


def test_protected_cluster_stays_whatever_is_typed(region: Region, ndctl: Ndctl) -> None:
    said = ndctl("destroy", region.inventory(protect=True), "--yes")
    assert said.code == 4 and "protect: true" in said.err


def test_two_writers(region: Region, ndctl: Ndctl) -> None:
    from ndctl.inventory.loader import load
    from ndctl.workflow.locks import cluster_lock
    from ndctl.workflow.state_dir import cluster_dir

    inventory = region.inventory()
    loaded = load(inventory)
    with cluster_lock(cluster_dir(loaded.inventory, inventory), loaded.inventory.cluster, "deploy"):
        for verb in ("deploy", "destroy"):
            said = ndctl(verb, inventory, "--yes")
            assert said.code == 10 and "is locked: deploy by" in said.err


def _custom(region: Region, **cloud: Any) -> dict[str, Any]:
    told = yaml.safe_load(region.directory.file("inventory.yaml").read_text())["cloud"]
    return {"cloud": {**told, **cloud}}


def test_wrong_ca(region: Region, ndctl: Ndctl) -> None:
    import trustme

    trustme.CA().cert_pem.write_to_path(str(region.directory.file("wrong.pem")))
    said = ndctl("nodes", region.inventory(**_custom(region, ca="wrong.pem")))
    assert said.code == 4 and "certificate is not trusted" in said.err and "cloud.ca" in said.err


def test_assertion_that_the_authority_refuses(region: Region, ndctl: Ndctl) -> None:
    forged = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJub2JvZHkifQ.AAAAAAAAAAAAAAAAAAAAAA"
    region.directory.file("forged.jwt").write_text(forged)
    identity = json.loads(region.directory.file("identity.json").read_text())
    region.directory.file("forged.json").write_text(json.dumps({**identity, "token_file": "forged.jwt"}))
    said = ndctl("plan", region.inventory(**_custom(region, identity="forged.json")))
    assert said.code == 3 and "not signed in" in said.err and forged not in said.err


def test_region_that_is_down(region: Region, ndctl: Ndctl) -> None:
    closed = "https://127.0.0.1:9"
    said = ndctl("plan", region.inventory(**_custom(region, endpoint=closed, authority=closed)))
    assert said.code == 4 and "connection refused" in said.err


def test_a_subscription_that_is_not_seen_is_no_empty_cluster(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory(subscription="99999999-0000-0000-0000-000000000000")
    for verb in ("plan", "nodes"):
        said = ndctl(verb, inventory)
        assert said.code == 3 and "SubscriptionNotFound" in said.err


def test_throttled_and_failing_answers_are_ridden_out(region: Region, ndctl: Ndctl) -> None:
    region.faults.add("throttle", count=2, retry_after=1)
    region.faults.add("error-500", count=1)
    assert ndctl("plan", region.inventory()).code == 0


def test_policy_that_forbids_the_foundation(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory()
    assert ndctl("deploy", inventory, "--yes").code == 0
    region.change(inventory, tags={"owner": "x"})
    region.faults.add("policy-denied", policy="no-gpus")
    said = ndctl("deploy", inventory, "--yes")
    assert said.code == 4
    assert "foundation  refused. RequestDisallowedByPolicy (policy, trying again will not help)" in said.out


def test_static_inventory_lists_its_nodes_without_azure(ndctl: Ndctl, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text("cluster: lab\nprofile: gb300\nstatic:\n- {rack: 7, nodes: 'gpu[01-03]'}\n")
    said = ndctl("nodes", tmp_path / "lab.yaml")
    assert said.code == 0
    assert said.out.splitlines() == [
        "node        address",
        "rack07-n01  gpu01",
        "rack07-n02  gpu02",
        "rack07-n03  gpu03",
    ]
    for verb in ("plan", "deploy", "destroy"):
        assert ndctl(verb, tmp_path / "lab.yaml").code == 2


def test_no_key_anywhere_is_said_before_signing_in(
    region: Region, ndctl: Ndctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    inventory = region.inventory(ssh={"port": region.running.ssh_port})
    said = ndctl("plan", inventory)
    assert said.code == 2 and "ssh-keygen -t ed25519" in said.err
    (tmp_path / ".ssh").mkdir()
    shutil.copy(region.directory.file("id_ed25519.pub"), tmp_path / ".ssh")
    assert ndctl("plan", inventory).code == 0


def test_a_plan_says_what_a_new_image_and_a_tag_come_to(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory()
    assert ndctl("deploy", inventory, "--yes").code == 0
    region.change(inventory, tags={"owner": "fabric"})
    told = json.loads(ndctl("plan", inventory, "-o", "json").out)
    assert told["racks"][0]["effects"] == {"in place": 2}
    region.change(inventory, ssh={**yaml.safe_load(inventory.read_text())["ssh"], "user": "somebody"})
    said = ndctl("plan", inventory, "--detailed-exitcode")
    assert said.code == 9
    assert "adminUsername: azureuser -> somebody   replaces" in said.out
    assert "comes to: replaces" in said.out and "it will refuse until that is deleted" in said.out
