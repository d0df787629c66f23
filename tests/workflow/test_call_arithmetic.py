"""The written calculation of ARM calls (tests/bench/arm-calls.md), computed again from calls that were counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ndctl.azure.calls import Calls
from ndctl.azure.clients import connect
from ndctl.azure.clouds import AZURE_POLL_S
from ndctl.azure.pacing import DELETES, LIMITS, LIMITS_OF_ONE, READS, SCALE_SET_LISTS, SCALE_SET_PUTS, WRITES, Limit
from ndctl.workflow.deploy import RACKS_AT_ONCE, deploy
from ndctl.workflow.destroy import destroy, plan_destroy
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy

if TYPE_CHECKING:
    from conftest import Region

PAGE = Path(__file__).parents[1] / "bench" / "arm-calls.md"
SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets"


def counted(region: Region, racks: int) -> tuple[Calls, Calls]:
    """(deploying, destroying) so many racks, in a group that exists."""
    loaded = region.loaded(racks=racks)
    clients = connect(loaded)
    try:
        clients.resources.resource_groups.create_or_update(clients.resource_group, {"location": clients.region})
        before = clients.tally.calls()
        rendered = render_to_deploy(loaded)
        made = deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients)
        assert made.exit_code == 0
        deployed = clients.tally.calls()
        assert destroy(plan_destroy(loaded, clients), clients).exit_code == 0
        return deployed.since(before), clients.tally.calls().since(deployed)
    finally:
        clients.close()


def line_through(two: int, four: int) -> tuple[float, float]:
    """(each rack, besides)"""
    each = (four - two) / 2
    return each, two - 2 * each


def least_minutes(calls: float, limit: Limit) -> float:
    return max(0.0, (calls - limit.burst) / limit.per_minute)


def rows() -> dict[str, list[str]]:
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) > 2 and re.match(r"\d", cells[1]):
            found[cells[0].partition(",")[0]] = cells[1:]
    return found


def number(text: str) -> float:
    match = re.match(r"[\d,.]+", text)
    assert match, text
    return float(match[0].replace(",", ""))


def test_the_page_says_what_was_counted(region: Region) -> None:
    (deploy_2, destroy_2), (deploy_4, destroy_4) = counted(region, 2), counted(region, 4)
    lines = {
        WRITES: line_through(deploy_2.by_kind[WRITES], deploy_4.by_kind[WRITES]),
        SCALE_SET_PUTS: line_through(deploy_2.by_azure[SCALE_SET], deploy_4.by_azure[SCALE_SET]),
    }
    for kind, (each, besides) in lines.items():
        at_64, at_1400 = besides + 64 * each, besides + 1400 * each
        limit = LIMITS[kind]
        told = [number(cell) for cell in rows()[kind]]
        computed = [each, besides, at_64, at_1400, limit.burst, limit.per_minute, least_minutes(at_1400, limit)]
        assert told == pytest.approx(computed, abs=0.05), kind
        # 64 racks fit into the full bucket; 1,400 are done long before Azure has allocated them.
        assert least_minutes(at_64, limit) == 0
        assert least_minutes(at_1400, limit) < 10
    each, besides = line_through(destroy_2.by_kind[DELETES], destroy_4.by_kind[DELETES])
    assert each == 2 and least_minutes(besides + 1400 * each, LIMITS[DELETES]) == pytest.approx(4.3, abs=0.1)


def test_watching_stays_within_the_limits_however_many_racks_there_are(region: Region) -> None:
    """How many looks of each kind one turn of watching makes is counted: a rack that never ends is watched."""
    loaded = region.loaded()
    clients = connect(loaded)
    region.faults.add("lro-never-ends", rack=1)
    rendered = render_to_deploy(loaded)
    made = deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients, rack_deadline_s=6)
    clients.close()
    watched = clients.tally.calls().by_type
    looks = watched["reads Microsoft.Resources/deployments/operations"]
    instances = watched[f"reads {SCALE_SET}/virtualMachines"]
    assert made.racks[0].fate.value == "still running" and looks >= 4
    assert instances <= looks + 1, "instances are listed more than once a look"
    looks_a_minute = 60 / AZURE_POLL_S
    reads, lists = 3 * RACKS_AT_ONCE * looks_a_minute, RACKS_AT_ONCE * looks_a_minute
    computed = {
        "reads": (reads, LIMITS[READS].per_minute),
        "scale-set lists": (lists, LIMITS[SCALE_SET_LISTS].per_minute),
        "scale-set lists of one rack": (looks_a_minute, LIMITS_OF_ONE[SCALE_SET_LISTS].per_minute),
    }
    for kind, (used, limit) in computed.items():
        assert [number(cell) for cell in rows()[kind]] == [used, limit], kind
        assert used < limit
