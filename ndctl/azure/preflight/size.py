"""The VM size: whether region and zone offer it to this subscription, and why not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ndctl.azure.preflight.base import Ask, Probe
from ndctl.model.preflight import PreflightLine
from ndctl.render.jump import JUMP_MACHINE

# learn.microsoft.com, "Resolve errors for SKU not available"
_REASONS = {
    "notavailableforsubscription": "Azure does not sell it to this subscription there",
    "quotaid": "the subscription's offer type does not include it",
}


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    yield _offered(ask, probe, ask.vm_size, ask.loaded.inventory.zone or "", probe.id, probe.title)
    if ask.creates_jump and not ask.jump_stands():
        # The jump VM is put into no zone.
        yield _offered(ask, probe, JUMP_MACHINE.vm_size, "", "size.jump", "size of the jump VM")


def _offered(ask: Ask, probe: Probe, vm_size: str, zone: str, id: str, title: str) -> PreflightLine:
    place = f"{ask.region}/{zone}" if zone else ask.region
    told: dict[str, Any] = {"id": id, "title": title}
    sku = ask.sizes().get(vm_size.casefold())
    if sku is None:
        return probe.refused(
            f"{vm_size} is not listed in {ask.region}",
            f"az vm list-skus --size {vm_size} --all   names the regions that have it",
            **told,
        )
    zones = sorted({str(one) for info in sku.location_info or () for one in info.zones or ()})
    told["facts"] = {"family": sku.family or "", "zones": zones, "architecture": capability(sku, "CpuArchitectureType")}
    if why := _restricted(sku, ask.region, zone):
        open_zones = [one for one in zones if not _restricted(sku, ask.region, one)]
        step = "ask Azure to lift the restriction (support request, or the account team)"
        if zone and open_zones:
            step = f"choose another zone: {', '.join(open_zones)}; or {step}"
        return probe.refused(f"{vm_size} in {place} is restricted: {why}", step, **told)
    if zone and zones and zone not in zones:
        return probe.refused(
            f"{vm_size} is in zones {', '.join(zones)} of {ask.region}, not in {zone}",
            f"choose one of them in {ask.inventory}",
            **told,
        )
    if zone and not zones:
        return probe.unproved(
            f"{vm_size} is offered in {ask.region}; Azure names no zones for it",
            "ask the account team which zone holds the racks",
            **told,
        )
    return probe.proved(f"{vm_size} is offered in {place}", **told)


def _restricted(sku: Any, region: str, zone: str) -> str:
    """Why not, "" when nothing restricts it there."""
    for one in sku.restrictions or ():
        kind = str(getattr(one.type, "value", one.type) or "").casefold()
        code = str(getattr(one.reason_code, "value", one.reason_code) or "no reason given")
        info = one.restriction_info
        places = {place.casefold() for place in ((info.locations if info else None) or one.values_property or ())}
        here = not places or region.casefold() in places
        zones = {str(entry) for entry in (info.zones if info else None) or ()}
        if here and (kind == "location" or (kind == "zone" and zone and zone in zones)):
            meaning = _REASONS.get(code.casefold())
            where = "the whole region" if kind == "location" else f"zone {zone}"
            return f"{code} in {where}" + (f" ({meaning})" if meaning else "")
    return ""


def capability(sku: Any, name: str) -> str:
    return next((one.value or "" for one in sku.capabilities or () if (one.name or "") == name), "")


PROBE = Probe("size", "size offered", "Microsoft.Compute resource SKUs", _ask)
