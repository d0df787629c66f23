"""Interconnect blocks: those that exist, their capacity and state, and whether they can become what is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from ndctl.azure.preflight.base import Ask, Probe, count
from ndctl.azure.preflight.live import Block
from ndctl.model.places import rack_name
from ndctl.model.preflight import PreflightLine
from ndctl.render import names


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    if not ask.in_blocks:
        yield probe.proved(f"{ask.vm_size} is placed without blocks", source="the profile and the inventory")
        return
    wanted = [rack_name(number) for number in range(1, ask.racks + 1)]
    blocks = ask.standing().blocks
    here = {rack: blocks[rack] for rack in wanted if rack in blocks}
    facts = {"wanted": len(wanted), "existing": len(here)}
    wrong = [f"{one.name} {why}" for one in here.values() if (why := _unfit(ask, one))]
    if wrong:
        yield probe.refused(
            f"Azure changes only capacity and tags of a block: {'; '.join(wrong[:3])}"
            + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""),
            "delete the rack's scale set and block first, or put the inventory back to what they are",
            facts=facts,
        )
        return
    short = [one for one in here.values() if one.provisioning.casefold() != "succeeded" or _less(ask, one)]
    missing = len(wanted) - len(here)
    if not missing and not short:
        yield probe.proved(f"{count(len(here), 'block')} with {ask.loaded.vms_per_rack} VMs each", facts=facts)
        return
    told = [f"{count(len(here) - len(short), 'block')} whole"] if here else []
    told += [
        f"{one.name} is {one.provisioning or 'in an unknown state'} with "
        f"{'an unknown number' if one.allocated is None else one.allocated} of {ask.loaded.vms_per_rack} VMs"
        for one in short[:3]
    ]
    if missing:
        told.append(f"{missing} to be made; Azure allocates a block only then")
    yield probe.unproved("; ".join(told), f"deploy tells: ndctl deploy {ask.inventory}", facts=facts)


def _unfit(ask: Ask, block: Block) -> str:
    """What of a block cannot be changed and is not as asked; "" when it fits."""
    zone = ask.loaded.inventory.zone
    group = names.interconnect_group(ask.cluster)
    if block.vm_size and block.vm_size.casefold() != ask.vm_size.casefold():
        return f"is of {block.vm_size}, not {ask.vm_size}"
    if zone and block.zones and zone not in block.zones:
        return f"is in zone {', '.join(block.zones)}, not {zone}"
    if block.group and block.group.rpartition("/")[2].casefold() != group.casefold():
        return f"is in group {block.group.rpartition('/')[2]}, not {group}"
    return ""


def _less(ask: Ask, block: Block) -> bool:
    return block.allocated is None or block.allocated < ask.loaded.vms_per_rack


PROBE = Probe("blocks", "capacity blocks", "interconnect blocks of the resource group", _ask)
