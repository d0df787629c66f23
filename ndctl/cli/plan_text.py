"""A plan for people: one summary line, then every rack that changes, equal racks folded into one entry."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndctl.azure.whatif import Change
    from ndctl.workflow.plan import Plan, Step

_SIGNS = {
    "create": "+",
    "modify": "~",
    "delete": "-",
    "no change": "=",
    "deploy": "~",
    "unsupported": "?",
    "ignore": "=",
}
_SHOWN_PROPERTIES = 8


def plan_lines(plan: Plan, *, verbose: bool) -> list[str]:
    """The whole text as lines. `verbose` unfolds racks and shows unchanged resources too."""
    lines = [_summary(plan)]
    if verbose or not _quiet(plan.foundation):
        lines += _entry("foundation", [plan.foundation], verbose)
    shown = [step for step in plan.racks if verbose or not _quiet(step)]
    for _, group in groupby(shown, key=(lambda step: step.rack) if verbose else _shape):
        steps = list(group)
        lines += _entry(_rack_span([step.rack for step in steps]), steps, verbose)
    if not plan.group_exists:
        lines.append(f"resource group {plan.resource_group} does not exist and would be created")
    if plan.foreign:
        count = "1 resource" if plan.foreign == 1 else f"{plan.foreign} resources"
        lines.append(f"untouched: {count} in {plan.resource_group} that ndctl does not manage")
    lines += [f"not provable before deploy: {line}" for line in plan.not_provable]
    lines += [f"pre-flight: {line}; all of it: ndctl preflight {plan.inventory}" for line in plan.preflight]
    return lines


def _quiet(step: Step) -> bool:
    """Nothing to say: no change, and Azure was sure of it."""
    sure = all(change.kind.value in ("no change", "ignore") for change in step.changes)
    return step.act.value == "no change" and sure and not step.notes


def _summary(plan: Plan) -> str:
    place = f"{plan.region}/{plan.zone}" if plan.zone else plan.region
    acts = ("no change", "create", "modify", "delete", "refused", "beyond the inventory")
    counts = {act: sum(1 for step in plan.racks if step.act.value == act) for act in acts}
    told = [f"{counts[act]} {act}" for act in acts[:4]] + [f"{counts[act]} {act}" for act in acts[4:] if counts[act]]
    return f"{plan.cluster}  {place}   foundation: {plan.foundation.act.value}   racks: {' · '.join(told)}"


def _entry(name: str, steps: list[Step], verbose: bool) -> Iterator[str]:
    """`  rack64  + interconnectBlocks/swc-a-rack64          capacity 18`"""
    first = steps[0]
    head = f"  {name}  "
    rows: list[str] = []
    shown = [one for one in first.changes if verbose or one.kind.value not in ("no change", "ignore")]
    racks = [step.rack for step in steps]
    width = max([44, *(len(_name(one, racks)) for one in shown)])
    for change in shown:
        rows += _change_rows(change, racks, width, verbose)
    rows += _effect_rows(steps)
    if first.fault:
        rows.append(f"! refused: {first.fault.summary}: {first.fault.innermost_message}")
        rows.append(f"  next: {first.fault.next_step}")
    rows += [f"  {note}" for note in first.notes]
    for row in rows or [first.act.value]:
        yield f"{head}{row}".rstrip()
        head = " " * len(head)


def _name(change: Change, racks: list[str]) -> str:
    kind = change.type.partition("/")[2] or change.type
    last = f" … {change.name.replace(racks[0], racks[-1])}" if len(racks) > 1 else ""
    return f"{kind}/{change.name}{last}"


def _change_rows(change: Change, racks: list[str], width: int, verbose: bool) -> Iterator[str]:
    from ndctl.render.effects import Effect
    from ndctl.workflow.plan_meaning import meaning

    yield f"{_SIGNS[change.kind.value]} {_name(change, racks).ljust(width)} {_what(change)}".rstrip()
    told = [(one, meaning(change, one)) for one in change.properties]
    changed = [pair for pair in told if pair[1].effect is not Effect.NOISE]
    shown = changed if verbose else changed[:_SHOWN_PROPERTIES]
    for one, means in shown:
        note = f" ({means.note})" if means.note else ""
        yield f"    {one.path}: {_short(one.before)} -> {_short(one.after)}   {means.effect.value}{note}"
    if len(changed) > len(shown):
        yield f"    and {len(changed) - len(shown)} more properties (-v or -o json shows all)"
    noise = [pair for pair in told if pair[1].effect is Effect.NOISE]
    if noise and not verbose:
        yield f"    {len(noise)} noise: listed by Azure, without effect (-v shows them)"
    for one, means in noise if verbose else ():
        yield f"    {one.path}: {_short(one.before)} -> {_short(one.after)}   noise: {means.note or 'Azure writes it'}"


# What each effect means for the VMs that run, said once for an entry.
_FOR_VMS = {
    "needs reimage": "running VMs keep the old value until each is reimaged",
    "replaces": "Azure does not change this on what exists: it will refuse until that is deleted",
    "deletes": "VMs or resources go",
    "unknown": "no source says what it does to running VMs",
}


def _effect_rows(steps: list[Step]) -> Iterator[str]:
    """`  needs reimage (2), in place (1): running VMs keep …`; nothing where no existing thing is modified."""
    from ndctl.render.effects import Effect
    from ndctl.workflow.plan_meaning import effects

    found = {effect: count for effect, count in effects(steps[0].changes).items() if effect is not Effect.NOISE}
    if not found:
        return
    order = sorted(found, key=list(Effect).index, reverse=True)
    counts = ", ".join(f"{effect.value} ({found[effect]})" for effect in order)
    told = _FOR_VMS.get(order[0].value)
    vms = sum(step.live_vms or 0 for step in steps)
    running = f"; {vms} VMs are there" if vms and order[0] is Effect.REIMAGE else ""
    yield f"  comes to: {counts}" + (f": {told}{running}" if told else "")


def _what(change: Change) -> str:
    if change.kind.value == "unsupported":
        return f"Azure cannot predict this type{': ' + change.note if change.note else ''}"
    if change.kind.value == "deploy":
        return "will be sent; Azure does not say whether anything changes"
    sku = change.after.get("sku") or {}
    if change.kind.value == "create" and isinstance(sku, dict) and sku.get("capacity"):
        if change.type.casefold().endswith("interconnectblocks"):
            return f"capacity {sku['capacity']}"
        return f"{sku['capacity']} × {sku.get('name', 'VM')}"
    return ""


def _shape(step: Step) -> tuple[object, ...]:
    """Equal for racks that differ in nothing but their name."""

    def plain(text: str) -> str:
        return text.replace(step.rack, "rack")

    changes = tuple(
        (
            one.kind,
            one.type,
            plain(one.name),
            _what(one),
            tuple((p.path, p.kind, plain(str(p.before)), plain(str(p.after))) for p in one.properties),
        )
        for one in step.changes
    )
    fault = (step.fault.innermost_code, plain(step.fault.innermost_message)) if step.fault else None
    return (step.act, changes, fault, step.notes)


def _rack_span(racks: list[str]) -> str:
    return racks[0] if len(racks) == 1 else f"{racks[0]}-{racks[-1]}"


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "…"
