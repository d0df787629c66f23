"""vCPU quota: what the inventory needs, less what stands already, against what is left of family and region."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import AzureError

from ndctl.azure.clients import COMPUTE_API
from ndctl.azure.faults import fault_from_exception
from ndctl.azure.preflight.base import Ask, Probe, count, reason
from ndctl.azure.preflight.size import capability
from ndctl.model.errors import NdctlError
from ndctl.model.preflight import PreflightLine
from ndctl.render.jump import JUMP_MACHINE

_TAIL = re.compile(r"(vcpus|cores)$")
_REGION = "cores"
_LINES = (("quota.family", "quota of the family"), ("quota.region", "quota of the region"))


@dataclass(frozen=True, slots=True)
class Demand:
    """vCPUs of one family that do not stand yet. what: `2 racks × 18 VMs × 128 vCPUs`."""

    family: str
    cores: int
    what: str


@dataclass(frozen=True, slots=True)
class Usage:
    name: str
    used: int
    limit: int

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)

    @property
    def unlimited(self) -> bool:
        return self.limit < 0


def same(family: str) -> str:
    """Family names are spelled with other case, with spaces, with "vCPUs" behind them: one form to compare."""
    return _TAIL.sub("", re.sub(r"[^a-z0-9]", "", family.casefold()))


def racks_demand(ask: Ask, family: str, vcpus: int) -> Demand:
    """What the racks need beyond what stands. Raises AzureError when what stands cannot be listed."""
    lacking = ask.standing().missing(ask.racks, ask.loaded.vms_per_rack)
    vms = sum(lacking.values())
    return Demand(family, vms * vcpus, f"{count(vms, 'VM')} of {count(len(lacking), 'rack')} × {vcpus} vCPUs")


def usages(ask: Ask) -> dict[str, Usage]:
    """The region's quota by normalised name."""
    found: dict[str, Usage] = {}
    for one in ask.clients.compute.usage.list(ask.region, api_version=COMPUTE_API):
        if one.name is None or one.limit is None or one.current_value is None:
            continue
        row = Usage(one.name.value or one.name.localized_value or "", int(one.current_value), int(one.limit))
        for spelled in (one.name.value, one.name.localized_value):
            if spelled:
                found.setdefault(spelled.casefold() if spelled.casefold() == _REGION else same(spelled), row)
    return found


def refusal_of_plan(ask: Ask) -> str:
    """What quota would refuse, in one line; "" when it holds or cannot be told. Cheap: asks for usages only."""
    azure = ask.loaded.profile.azure
    try:
        demand = racks_demand(ask, azure.quota_family.value, azure.vcpus.value)
        if not demand.cores:
            return ""
        rows = usages(ask)
    except AzureError as error:
        return f"quota is not told ({reason(fault_from_exception(error))[:160]})"
    except NdctlError as error:
        return f"quota is not told ({error.message})"
    for row in (rows.get(same(demand.family)), rows.get(_REGION)):
        if row is not None and not row.unlimited and demand.cores > row.left:
            return f"quota would refuse it: {_short_of(demand, row)}"
    return ""


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    demands = list(_demands(ask))
    rows = usages(ask)
    for index, demand in enumerate(demands):
        id, title = _LINES[0] if index == 0 else ("quota.jump", "quota of the jump VM's family")
        yield _line(ask, probe, id, title, demand, rows.get(same(demand.family)))
    together = Demand("all families", sum(one.cores for one in demands), " + ".join(one.what for one in demands))
    yield _line(ask, probe, *_LINES[1], together, rows.get(_REGION))


def _line(ask: Ask, probe: Probe, id: str, title: str, demand: Demand, row: Usage | None) -> PreflightLine:
    facts: dict[str, Any] = {"family": demand.family, "needed": demand.cores}
    if demand.cores == 0:
        return probe.proved("nothing more is needed, all VMs stand", id=id, title=title, facts=facts)
    if row is None:
        return probe.unproved(
            f"needs {demand.cores:,} vCPUs ({demand.what}); Azure lists no quota of {demand.family} in {ask.region}",
            f"az vm list-usage --location {ask.region} -o table   shows what it lists",
            id=id,
            title=title,
            facts=facts,
        )
    facts |= {"limit": row.limit, "used": row.used}
    if row.unlimited or demand.cores <= row.left:
        left = "no limit" if row.unlimited else f"{row.left:,} of {row.limit:,} left"
        message = f"needs {demand.cores:,} more vCPUs ({demand.what}); {row.name}: {left}"
        return probe.proved(message, id=id, title=title, facts=facts)
    return probe.refused(
        _short_of(demand, row),
        f"ask for a limit of {row.used + demand.cores:,} vCPUs of {row.name} in {ask.region} (portal: Quotas)",
        id=id,
        title=title,
        facts={**facts, "limit_needed": row.used + demand.cores},
    )


def _short_of(demand: Demand, row: Usage) -> str:
    return (
        f"needs {demand.cores:,} more vCPUs ({demand.what}) and {row.left:,} are left of {row.name}"
        f" (limit {row.limit:,}, used {row.used:,})"
    )


def _demands(ask: Ask) -> Iterable[Demand]:
    family, vcpus = _family(ask.sizes(), ask.vm_size)
    azure = ask.loaded.profile.azure
    yield racks_demand(ask, family or azure.quota_family.value, vcpus or azure.vcpus.value)
    if ask.creates_jump and not ask.jump_stands():
        family, vcpus = _family(ask.sizes(), JUMP_MACHINE.vm_size)
        if family:
            yield Demand(family, vcpus, f"the jump VM × {vcpus} vCPUs")


def _family(sizes: Mapping[str, Any], vm_size: str) -> tuple[str, int]:
    """("", 0) for a size that the region does not list."""
    sku = sizes.get(vm_size.casefold())
    if sku is None:
        return "", 0
    vcpus = capability(sku, "vCPUs")
    return sku.family or "", int(vcpus) if vcpus.isdigit() else 0


PROBE = Probe("quota", "quota", "Microsoft.Compute usages of the region, less what stands", _ask, _LINES)
