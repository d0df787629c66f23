"""Which instance stands behind which name: rack07-n03 keeps its meaning while Azure's instance ids come and go.

Pure: what was stored and what is live in, what to store out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndctl.azure.scale_sets import Instance


@dataclass(frozen=True, slots=True)
class Place:
    """Who stands at a position. `vm_id` changes when a VM is replaced, `instance_id` often does."""

    instance_id: str
    vm_id: str


def assign(stored: Mapping[int, Place], live: Sequence[Instance]) -> dict[int, Place]:
    """Position -> who stands there now.

    Who was known keeps its place: by VM id first, then by instance id. A newcomer takes the lowest place that is free:
    so a replacement gets the place of the VM it replaces, and the first discovery numbers by instance id from 1.
    Places whose VM is gone and not replaced are left out.
    """
    from ndctl.azure.scale_sets import instance_order  # late: it brings the Azure SDKs along

    waiting = sorted(live, key=lambda one: instance_order(one.instance_id))
    taken: dict[int, Place] = {}
    for same in (_same_vm, _same_instance):
        for position, place in sorted(stored.items()):
            if position in taken:
                continue
            one = next((instance for instance in waiting if same(place, instance)), None)
            if one is not None:
                taken[position] = Place(one.instance_id, one.vm_id)
                waiting.remove(one)
    free = 1
    for one in waiting:
        while free in taken:
            free += 1
        taken[free] = Place(one.instance_id, one.vm_id)
    return dict(sorted(taken.items()))


def _same_vm(place: Place, instance: Instance) -> bool:
    return bool(place.vm_id) and place.vm_id == instance.vm_id


def _same_instance(place: Place, instance: Instance) -> bool:
    return place.instance_id == instance.instance_id
