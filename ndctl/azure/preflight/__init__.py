"""The lines of a pre-flight: one module a question; `PROBES` in the order in which they are told."""

from __future__ import annotations

from ndctl.azure.preflight import (
    blocks,
    image,
    names,
    permissions,
    providers,
    quota,
    racks,
    signed_in,
    size,
    ssh_key,
    subnet,
    templates,
)
from ndctl.azure.preflight.base import Ask, Probe, answer

__all__ = ["PROBES", "Ask", "Probe", "answer"]

PROBES: tuple[Probe, ...] = (
    signed_in.PROBE,
    permissions.PROBE,
    providers.PROBE,
    size.PROBE,
    quota.PROBE,
    image.PROBE,
    subnet.PROBE,
    racks.PROBE,
    blocks.PROBE,
    names.PROBE,
    ssh_key.PROBE,
    templates.PROBE,
)
