"""The control plane's subgroups reach the nodes that are validated, and a wrong record is told of its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndctl.azure.clients import connect
from ndctl.workflow.deploy import deploy
from ndctl.workflow.nodes import discover
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy

if TYPE_CHECKING:
    from conftest import Region


def test_each_rack_has_a_subgroup_and_a_wrong_record_is_seen(region: Region) -> None:
    loaded = region.loaded()
    clients = connect(loaded)
    try:
        rendered = render_to_deploy(loaded)
        deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients)
        right = {node.name: node.subgroup for node in discover(loaded, clients).nodes}
        by_rack = {name[:6]: {sub for node, sub in right.items() if node.startswith(name[:6])} for name in right}
        assert all(len(subgroups) == 1 and subgroups != {""} for subgroups in by_rack.values())
        assert len(set.union(*by_rack.values())) == len(by_rack)
        region.faults.add("wrong-subgroup", node="rack01-n04")
        wrong = {node.name: node.subgroup for node in discover(loaded, clients).nodes}
        assert {name for name in right if right[name] != wrong[name]} == {"rack01-n04"}
    finally:
        clients.close()
