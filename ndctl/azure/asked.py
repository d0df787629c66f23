"""Which of the conditional permissions an inventory comes to need. Imports no Azure SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndctl.render.inputs import creates_jump

if TYPE_CHECKING:
    from ndctl.azure.roles import When
    from ndctl.inventory.loader import Loaded


def asked_of(loaded: Loaded) -> tuple[When, ...]:
    inventory = loaded.inventory
    created = inventory.network is not None and inventory.network.create is not None
    found: list[When] = ["created-network" if created else "given-subnet"]
    if creates_jump(inventory):
        found.append("created-jump")
    if in_blocks(loaded):
        found.append("block")
    if "/galleries/" in loaded.image.casefold():
        found.append("gallery")
    return tuple(found)


def in_blocks(loaded: Loaded) -> bool:
    """Whether the racks are placed in interconnect blocks."""
    kind = loaded.inventory.placement.kind or loaded.profile.azure.placement.value
    return kind == "interconnect-block"
