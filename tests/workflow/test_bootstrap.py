"""The unattended chain: to its end, refused, in part, killed, stopped, and several regions at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ndctl.inventory.loader import load
from ndctl.model.bootstrapped import Bootstrapped, Stage, StageEnd, bootstrapped_dict
from ndctl.model.errors import ExitCode
from ndctl.model.events import Event
from ndctl.model.status import Level
from ndctl.record.store import Store
from ndctl.report import schemas
from ndctl.report.event_stream import read_events
from ndctl.workflow.bootstrap import Ask, Chain
from ndctl.workflow.bootstrap_state import ChainState
from ndctl.workflow.locks import cluster_lock
from ndctl.workflow.regions import Regions
from ndctl.workflow.state_dir import cluster_dir
from tests.e2e.test_killed import charged, state
from tests.workflow.bootstrapping import Bootstrap, linked

if TYPE_CHECKING:
    from conftest import Region

QUICK = ("--level", "quick")
ACCEPTANCE = Draft202012Validator(schemas.load("acceptance"))


def names(inventory: Path) -> tuple[str, str]:
    told = yaml.safe_load(inventory.read_text())
    return told["cluster"], told["resource_group"]


def chain(inventory: Path, events: list[Event] | None = None) -> Bootstrapped:
    sink: Callable[[Event], None] = events.append if events is not None else lambda event: None
    return Chain(load(inventory), Ask(level=Level.QUICK), on_event=sink).run()


def kept_facts(cluster: str, group: str, region: Region) -> tuple[dict[str, Any], Any]:
    return state(region, cluster, group), charged(region, cluster, group)


def test_killed_twice_it_goes_on_and_ends_as_if_nothing_had_happened(region: Region) -> None:
    steady, beaten = (region.inventory(racks=1, vms_per_rack=2) for _ in range(2))
    whole = Bootstrap(steady, *QUICK)
    code, said = whole.end()
    assert code == 0, said
    cluster, group = names(steady)
    assert set(whole.stages(cluster).values()) == {"done"}
    answer = whole.results()[cluster]
    assert answer["verdicts"] == {"accepted": 1} and whole.events[-1]["type"] == "result"
    assert len({one["run"] for one in whole.events}) == 1 and whole.events[0]["run"] == answer["id"]
    record = json.loads(Path(answer["record"]).read_text())
    assert [error.message for error in ACCEPTANCE.iter_errors(record)] == []
    assert record["racks"] == [{"name": "rack01", "verdict": "accepted", "usable_nodes": 2, "expected_nodes": 2}]
    assert record["stages"]["deploy"]["facts"]["racks"] == {"deployed": ["rack01"]}

    first = Bootstrap(beaten, *QUICK)
    first.until(lambda one: one["type"] == "deploy" and one.get("rack") == "rack01")
    first.process.kill()
    assert first.end()[0] == -signal.SIGKILL
    second = Bootstrap(beaten, *QUICK)
    second.until(lambda one: "1 of 2 nodes answered" in one.get("message", ""))
    second.process.kill()
    assert second.end()[0] == -signal.SIGKILL
    sent = [one for one in region.requests() if one["method"] in ("PUT", "PATCH", "DELETE")]
    third = Bootstrap(beaten, *QUICK)
    code, said = third.end()
    assert code == 0, said
    cluster, group = names(beaten)
    assert [third.stages(cluster)[stage.value] for stage in Stage] == ["kept", "kept", "kept", "done", "done", "done"]
    assert [one for one in region.requests() if one["method"] in ("PUT", "PATCH", "DELETE")] == sent
    assert any("going on with run" in one.get("message", "") for one in third.events)
    assert {one["run"] for one in (*first.events, *second.events, *third.events)} == {first.events[0]["run"]}
    with Store() as store:
        assert [line.clusters for line in store.runs()].count((cluster,)) == 1
    mended, undisturbed = kept_facts(cluster, group, region), kept_facts(*names(steady), region)
    assert mended == undisturbed and len(mended[0]) > 2
    assert not (cluster_dir(load(beaten).inventory, beaten) / "bootstrap.json").exists()


def test_two_side_by_side_one_refused(region: Region, tmp_path: Path) -> None:
    good, bad = region.inventory(vms_per_rack=2), region.inventory(vms_per_rack=2, zone="3")
    folder = linked(tmp_path / "inventories", region.directory.path, good, bad)
    both = Bootstrap(folder, *QUICK)
    code, said = both.end()
    assert code == ExitCode.PREFLIGHT, said
    (fine, _), (refused, _) = names(good), names(bad)
    assert {one["cluster"] for one in both.events} == {fine, refused}
    assert both.results()[fine]["exit_code"] == 0 and both.results()[fine]["verdicts"] == {"accepted": 1}
    last = next(one for one in both.events if one["type"] == "result" and one["cluster"] == refused)
    assert last["error"]["class"] == "preflight" and last["next_step"] and "zone" in last["message"]
    assert both.stages(refused) == {"preflight": "failed"} | dict.fromkeys(list(Stage)[1:], "not reached")
    assert {one["run"] for one in both.events if one["cluster"] == fine} == {both.results()[fine]["id"]}


def test_refused_before_anything_is_sent(region: Region) -> None:
    region.faults.add("quota-exceeded", limit=1)
    inventory, events = region.inventory(), []
    before = len(region.requests())
    found = chain(inventory, events)
    assert found.exit_code is ExitCode.PREFLIGHT and found.last.stage is Stage.PREFLIGHT
    assert [one for one in region.requests()[before:] if one["method"] in ("PUT", "PATCH")] == []
    result = events[-1]
    assert (result.type, result.status, result.error["code"]) == ("result", "failed", "quota.family")
    assert "vCPUs of StandardNDISRGB300V6Family" in result.next_step and result.data["record"] == ""
    assert {event.cluster for event in events} == {names(inventory)[0]}


def test_in_part_it_goes_on_and_says_the_worst_and_the_next_try_fills_it(region: Region) -> None:
    region.faults.add("half-allocated", rack=2, count=1)
    inventory, events = region.inventory(racks=2, vms_per_rack=2), []
    found = chain(inventory, events)
    by_stage = {end.stage: end for end in found.stages}
    assert by_stage[Stage.DEPLOY].exit_code == ExitCode.DEPLOY_PARTIAL
    assert by_stage[Stage.DEPLOY].error == {"code": "AllocationFailed", "class": "capacity", "retryable": True}
    assert by_stage[Stage.VALIDATE].exit_code == ExitCode.INCOMPLETE
    assert found.exit_code is ExitCode.INCOMPLETE and found.verdicts == {"accepted": 1, "incomplete": 1}
    record = json.loads(Path(found.record).read_text())
    assert [error.message for error in ACCEPTANCE.iter_errors(record)] == []
    assert [rack["verdict"] for rack in record["racks"]] == ["accepted", "incomplete"]
    assert found.last.stage is Stage.DEPLOY and "goes on" in found.last.next_step
    region.faults.clear()
    again = chain(inventory)
    assert again.exit_code is ExitCode.OK and again.verdicts == {"accepted": 2} and again.id != found.id


def children(process: subprocess.Popen[str]) -> list[int]:
    """A child stands with the thread that began it."""
    lists = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(one) for listed in lists for one in listed.read_text().split()]


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM to all processes, as systemd sends it"])
def test_one_ctrl_c_stops_all_regions_and_says_how_to_go_on(region: Region, how: str) -> None:
    inventories = [region.inventory(vms_per_rack=2) for _ in range(2)]
    region.faults.add("lro-never-ends", rack=1)
    both = Bootstrap(*inventories, *QUICK, own_group=True)
    seen: set[str] = set()

    def both_wait(event: dict[str, Any]) -> bool:
        if event["type"] == "deploy" and event.get("rack"):
            seen.add(event["cluster"])
        return len(seen) == 2

    both.until(both_wait)
    if how == "Ctrl-C":
        both.process.send_signal(signal.SIGINT)
    else:
        regions = children(both.process)
        assert len(regions) == 2
        for one in (both.process.pid, *regions):
            os.kill(one, signal.SIGTERM)
    code, said = both.end()
    assert code == ExitCode.INTERRUPTED, said
    for inventory in inventories:
        answer = both.results()[names(inventory)[0]]
        assert answer["exit_code"] == 130 and answer["interrupted"]
        deploy = next(one for one in answer["stages"] if one["stage"] == "deploy")
        assert deploy["next_step"].startswith(f"ndctl bootstrap {inventory} --yes")
        folder = cluster_dir(load(inventory).inventory, inventory)
        with cluster_lock(folder, "free", "again"), cluster_lock(folder / "bootstrap", "free", "again"):
            pass


def test_a_region_whose_reader_was_killed_stops_by_itself() -> None:
    code = "import time\nfrom ndctl.cli.bootstrap import _end_with_parent\n_end_with_parent()\ntime.sleep(60)\n"
    environment = {**os.environ, "NDCTL_BOOTSTRAP_PARENT": str(2**22 + 1)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=30, check=False)
    assert ended.returncode == -signal.SIGINT and b"KeyboardInterrupt" in ended.stderr


def test_a_chain_that_another_process_is_at_is_left_alone(region: Region) -> None:
    inventory = region.inventory()
    loaded = load(inventory)
    folder = cluster_dir(loaded.inventory, inventory) / "bootstrap"
    folder.mkdir()
    with cluster_lock(folder, loaded.inventory.cluster, "bootstrap"):
        found = chain(inventory)
    assert found.exit_code is ExitCode.LOCKED_OR_STALE
    assert found.last.error == {"code": "lock.held", "class": "conflict", "retryable": True}
    assert "bootstrap by" in found.last.message and [end.stage for end in found.stages] == list(Stage)


def test_who_may_not_deploy(region: Region) -> None:
    region.faults.add("permission-denied", action="Microsoft.Resources/deployments/write")
    found = chain(region.inventory())
    assert found.exit_code is ExitCode.PERMISSION and found.last.stage is Stage.PREFLIGHT and found.last.next_step


NOW = datetime(2026, 12, 2, 3, 20, 11, tzinfo=UTC)


def test_what_is_kept_holds_for_the_same_inventory_only(tmp_path: Path) -> None:
    first = ChainState(tmp_path, "digest", NOW)
    first.keep(StageEnd(Stage.PREFLIGHT, "done", "17 proved"))
    assert ChainState(tmp_path, "digest", NOW).done_before(Stage.PREFLIGHT) is None, "before a deployment all is asked"
    first.keep(StageEnd(Stage.DEPLOY, "done", "1 rack as planned", facts={"run": "r"}))
    again = ChainState(tmp_path, "digest", NOW)
    assert again.id == first.id and again.began == "2026-12-02T03:20:11Z"
    end = again.done_before(Stage.DEPLOY)
    assert end is not None and (end.status, end.facts) == ("kept", {"run": "r"})
    assert again.done_before(Stage.VALIDATE) is None
    assert ChainState(tmp_path, "changed", NOW).done_before(Stage.DEPLOY) is None
    again.forget()
    again.keep(StageEnd(Stage.WAIT, "done"))
    assert ChainState(tmp_path, "digest", NOW).done_before(Stage.DEPLOY) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"id": 1}', '{"id": "a", "began": "b", "stages": {"deploy": 1}}']
)
def test_a_state_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "bootstrap.json").write_text(text)
    assert ChainState(tmp_path, "digest", NOW).done_before(Stage.DEPLOY) is None


STAND_IN = """
import os, signal, sys
name = sys.argv[2]
print("a library warns")
print('{"schema": "ndctl.event/1", "time": "2026-12-02T03:20:11Z", "run": "r", "type": "note", "status": "done", '
      '"cluster": "%s"}' % name, flush=True)
sys.stderr.write("out of memory\\n"); sys.stderr.flush()
if name == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(3)
"""


def test_a_region_that_ends_without_an_answer_is_answered_for(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(STAND_IN)
    lines: list[str] = []
    regions = Regions(
        [("killed", Path("killed")), ("gone", Path("gone"))], [], at_once=1, program=(sys.executable, str(script))
    )
    answers = regions.run(lambda line, told: lines.append(line))
    assert [one["exit_code"] for one in answers] == [1, 3]
    assert "signal 9" in answers[0]["stages"][0]["message"] and "out of memory" in answers[0]["stages"][0]["message"]
    told = list(read_events(lines))
    assert [(one.event.cluster, one.event.type) for one in told] == [
        ("killed", "note"), ("killed", "result"), ("gone", "note"), ("gone", "result"),
    ]  # fmt: skip
    answer = bootstrapped_dict(answers)
    assert [error.message for error in Draft202012Validator(schemas.load("bootstrap")).iter_errors(answer)] == []
    assert answer["exit_code"] == 1
