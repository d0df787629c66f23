"""The jump VM's hardware and image, as data: small, offered almost everywhere, and no part of the racks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JumpMachine:
    """`image` is publisher:offer:sku:version. The jump host carries no work, so its image is not pinned."""

    vm_size: str
    image: str
    os_disk_type: str


# x86_64 on purpose: an old and widely offered size, where small Arm sizes are missing from some regions. Whether a
# region sells it is for pre-flight to ask.
JUMP_MACHINE = JumpMachine(
    vm_size="Standard_D2s_v5",
    image="Canonical:ubuntu-24_04-lts:server:latest",
    os_disk_type="StandardSSD_LRS",
)
