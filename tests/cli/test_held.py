"""Locks, audit lines and counted calls of deploy and destroy, as a person meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ndctl.azure.clients import connect
from ndctl.azure.group_tags import merge_tags, read_tags
from ndctl.inventory.loader import load
from ndctl.workflow.audit import audit_lines, audit_tag
from ndctl.workflow.group_lock import lock_tag
from ndctl.workflow.lock_holder import Holder
from ndctl.workflow.state_dir import cluster_dir

if TYPE_CHECKING:
    from conftest import Region


def test_deploy_and_destroy_leave_their_lines(region: Region, ndctl: Callable[..., Any]) -> None:
    inventory = region.inventory()
    loaded = load(inventory)
    assert ndctl("deploy", inventory, "--yes").code == 0
    own = connect(loaded)
    cluster = loaded.inventory.cluster
    tags = read_tags(own) or {}
    assert "deploy by" in tags[audit_tag(cluster)] and "1 rack as planned, exit 0" in tags[audit_tag(cluster)]
    assert f"ndctl-lock-{cluster}" not in tags and tags["ndctl-cluster"] == cluster
    own.close()
    assert ndctl("destroy", inventory, "--yes").code == 0
    ended = [one for one in audit_lines(cluster_dir(loaded.inventory, loaded.path)) if one["event"] == "ended"]
    assert [(one["verb"], one["exit_code"]) for one in ended] == [("deploy", 0), ("destroy", 0)]
    assert ended[0]["digest"] and "and resource group" in ended[1]["result"]


def test_another_machine_holds_the_cluster(region: Region, ndctl: Callable[..., Any]) -> None:
    inventory = region.inventory()
    loaded = load(inventory)
    own = connect(loaded)
    own.resources.resource_groups.create_or_update(own.resource_group, {"location": own.region})
    now = own.clock.now()
    cluster = loaded.inventory.cluster
    held = Holder("deploy", "ops@ci-7", 4711, now, now + 600, "0123abcd", "ab12")
    merge_tags(own, {lock_tag(cluster): held.text()})
    for verb in ("deploy", "destroy"):
        said = ndctl(verb, inventory, "--yes")
        assert said.code == 10 and "deploy by ops@ci-7, process 4711, since" in said.err
        assert "--break-lock ops@ci-7" in said.err
    said = ndctl("deploy", inventory, "--yes", "--break-lock", "somebody@else")
    assert said.code == 10 and "not locked by somebody@else but by ops@ci-7" in said.err
    assert ndctl("deploy", inventory, "--yes", "--break-lock", "ops@ci-7").code == 0
    assert lock_tag(cluster) not in (read_tags(own) or {})
    own.close()


def test_calls_are_printed_and_in_the_json(region: Region, ndctl: Callable[..., Any]) -> None:
    inventory = region.inventory(racks=2)
    said = ndctl("deploy", inventory, "--yes", "-o", "json")
    told = json.loads(said.out)
    line = next(line for line in said.err.splitlines() if line.startswith("ARM calls: "))
    assert line.startswith(f"ARM calls: {told['calls']['total']} (")
    assert line.endswith("; inside deployments 2 scale-set PUTs, 2 block PUTs")
    assert told["calls"]["by_type"]["writes Microsoft.Resources/deployments"] == 3
    assert told["run"].startswith("deploy-")


def test_a_deadline_that_is_none(region: Region, ndctl: Callable[..., Any]) -> None:
    said = ndctl("deploy", region.inventory(), "--yes", "--rack-deadline", "soon")
    assert said.code == 2 and "--rack-deadline takes a time such as" in said.err


def test_what_never_ends_ends_at_its_deadline_and_is_mentioned_the_next_time(
    region: Region, ndctl: Callable[..., Any]
) -> None:
    inventory = region.inventory(racks=2)
    cluster = load(inventory).inventory.cluster
    region.faults.add("lro-never-ends", rack=2)
    first = ndctl("deploy", inventory, "--yes", "--rack-deadline", "1s")
    assert first.code == 6
    assert "rack02  still running in Azure: no end after 1 s; Azure goes on with it" in first.out
    again = ndctl("deploy", inventory, "--yes", "--rack-deadline", "1s")
    assert f"still running in Azure from before: {cluster}-rack02 since 20" in again.err
    assert "; racks with changes wait for theirs first" in again.err  # and one without changes does not wait
    region.faults.clear()
    assert ndctl("deploy", inventory, "--yes").code == 0


def test_a_state_directory_that_cannot_be_used_refuses_before_anything_is_sent(
    region: Region, ndctl: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = region.inventory()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "file"))
    record = tmp_path / "runs.sqlite"
    for verb in ("deploy", "destroy", "nodes", "diagnose", "first-contact", "bootstrap"):
        options = {"diagnose": ["rack01-n01"], "bootstrap": ["--yes", "--record", record]}.get(verb, [])
        said = ndctl(verb, inventory, *options)
        assert (said.code, "internal error" in said.err) == (2, False), f"{verb}: {said.err}"
        assert "cannot keep " in said.err and "NDCTL_STATE_DIR" in said.err
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "none"))
    seen = ndctl("status", inventory)
    assert seen.code == 0 and "nothing deployed" in seen.out
    assert not (tmp_path / "none").exists()  # what changes nothing makes no folder either
