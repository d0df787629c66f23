"""What the hardware promises. `load("gb300")`, `for_vm_size("Standard_ND128isr_GB300_v6")`, `names()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndctl.profiles.schema import Profile

__all__ = ["for_vm_size", "load", "names"]


def load(name: str) -> Profile:
    """See `ndctl.profiles.loader.load`; imported on first use, since pydantic is slow to load."""
    from ndctl.profiles import loader

    return loader.load(name)


def for_vm_size(size: str) -> Profile:
    """See `ndctl.profiles.loader.for_vm_size`."""
    from ndctl.profiles import loader

    return loader.for_vm_size(size)


def names() -> list[str]:
    """See `ndctl.profiles.loader.names`."""
    from ndctl.profiles import loader

    return loader.names()
