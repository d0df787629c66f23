"""Plans are bound to what they were made from, and say what cannot be known."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ndctl.azure.clients import connect
from ndctl.inventory.loader import Loaded, load
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.deploy import deploy
from ndctl.workflow.plan import Act, Plan, make_plan
from ndctl.workflow.plan_file import hold_plan, read_plan, write_plan
from ndctl.workflow.prepare import render_to_deploy

if TYPE_CHECKING:
    from conftest import Region


def plan_of(loaded: Loaded, *, then_deploy: bool = False) -> Plan:
    clients = connect(loaded)
    try:
        rendered = render_to_deploy(loaded)
        plan = make_plan(loaded, rendered, clients)
        if then_deploy:
            deploy(loaded, rendered, plan, clients)
        return plan
    finally:
        clients.close()


def test_same_input_same_digest(region: Region) -> None:
    loaded = region.loaded(racks=2)
    assert plan_of(loaded).digest == plan_of(load(loaded.path)).digest


def test_each_digest_moves_with_what_it_stands_for(region: Region, tmp_path: Path) -> None:
    loaded = region.loaded()
    first = plan_of(loaded)
    write_plan(first, tmp_path / "plan.json")
    saved = read_plan(tmp_path / "plan.json")
    hold_plan(saved, plan_of(loaded))

    tagged = load(region.change(loaded.path, tags={"owner": "x"}))
    with pytest.raises(NdctlError, match="the inventory and the rendered templates") as caught:
        hold_plan(saved, plan_of(tagged))
    assert caught.value.exit_code is ExitCode.LOCKED_OR_STALE

    untagged = load(region.change(loaded.path, tags={}))
    plan_of(untagged, then_deploy=True)
    with pytest.raises(NdctlError, match="what is live in Azure changed"):
        hold_plan(saved, plan_of(untagged))


def test_a_plan_that_cannot_be_written_leaves_the_one_before_whole(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, path = plan_of(region.loaded()), tmp_path / "plan.json"
    write_plan(plan, path)
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ndctl.workflow.state_dir.os.fsync", full)
    with pytest.raises(NdctlError, match="No space left on device") as caught:
        write_plan(plan, path)
    assert caught.value.exit_code is ExitCode.USAGE
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_is_written_into_a_pipe_and_not_over_it(region: Region, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as reader:
        write_plan(plan_of(region.loaded()), pipe)
        assert json.loads(reader.read())["schema"] == "ndctl.plan/1"
    assert pipe.is_fifo()


def test_a_new_cluster_says_that_capacity_is_not_known(region: Region) -> None:
    plan = plan_of(region.loaded(racks=3))
    assert [step.act for step in plan.racks] == [Act.CREATE] * 3
    assert plan.not_provable == (
        "free capacity for 54 more VMs (the interconnect group, which could tell, does not exist yet)",
    )
    assert {change.source for change in plan.racks[0].changes} == {"template"}


def test_the_interconnect_group_is_asked_once_it_exists(region: Region) -> None:
    loaded = region.loaded()
    plan_of(loaded, then_deploy=True)
    assert plan_of(loaded).not_provable == ()
    grown = plan_of(load(region.change(loaded.path, racks=2)))
    assert grown.not_provable[0].startswith("free capacity for 18 more VMs (node availability says ")
    assert {change.source for change in grown.racks[1].changes} == {"what-if"}


def test_a_rack_with_missing_vms_is_not_unchanged(region: Region) -> None:
    loaded = region.loaded()
    region.faults.add("half-allocated", rack=1, count=17)
    plan_of(loaded, then_deploy=True)
    step = plan_of(loaded).racks[0]
    assert (step.act, step.live_vms, step.expected_vms) == (Act.MODIFY, 17, 18)


def test_planning_changes_nothing(region: Region) -> None:
    before = len(region.requests())
    plan_of(region.loaded())
    assert {one["method"] for one in region.requests()[before:]} <= {"GET", "HEAD", "POST"}
    posts = [one["path"] for one in region.requests()[before:] if one["method"] == "POST"]
    assert all(path.endswith(("/token", "/whatIf")) for path in posts)
