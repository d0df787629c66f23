"""Whole racks in service and free: nodeAvailability of the interconnect group, the one place where Azure tells."""

from __future__ import annotations

from collections.abc import Iterator

from ndctl.azure.availability import node_availability
from ndctl.azure.preflight.base import Ask, Probe, count
from ndctl.model.preflight import PreflightLine
from ndctl.render import names


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    if not ask.in_blocks:
        message = f"{ask.vm_size} is placed without an interconnect group; no API tells what is free"
        yield probe.unproved(message, "deploy, and see what Azure allocates")
        return
    lacking = ask.standing().missing(ask.racks, ask.loaded.vms_per_rack)
    blocks = ask.standing().blocks
    new = [rack for rack in lacking if not (blocks.get(rack) and blocks[rack].allocated)]
    if not lacking:
        yield probe.proved("none is needed, all racks stand", facts={"needed": 0})
        return
    group = names.interconnect_group(ask.cluster)
    there = any(
        one.type.casefold() == "microsoft.network/interconnectgroups" and one.name.casefold() == group.casefold()
        for one in ask.group().ours
    )
    if not there:
        yield probe.unproved(
            f"{count(len(new), 'whole rack')} wanted; the interconnect group, which could tell, does not exist yet",
            f"deploy tells: ndctl deploy {ask.inventory}",
            facts={"needed": len(new)},
        )
        return
    told = node_availability(ask.clients, group)
    if told.problem:
        yield probe.unproved(told.problem, f"deploy tells: ndctl deploy {ask.inventory}", facts={"needed": len(new)})
        return
    facts = {"needed": len(new), "whole_racks": told.whole_racks, "free_nodes": told.free_nodes}
    have = f"{count(told.whole_racks, 'whole rack')} in service and free ({count(told.free_nodes, 'node')})"
    if told.whole_racks < len(new):
        yield probe.refused(
            f"{count(len(new), 'whole rack')} wanted, {have}",
            f"ask for no more than {told.whole_racks + ask.racks - len(new)} racks, or wait for capacity",
            facts=facts,
        )
        return
    yield probe.proved(f"{have}, {len(new)} wanted (as of now; Azure does not say in which zone)", facts=facts)


PROBE = Probe("racks", "whole racks", "nodeAvailability of the interconnect group", _ask)
