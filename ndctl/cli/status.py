"""ndctl status: the control plane and the last validation side by side, for one or many clusters."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.plan import Format
from ndctl.model.errors import ManyErrors

if TYPE_CHECKING:
    from ndctl.model.errors import NdctlError
    from ndctl.workflow.status import ClusterStatus, RackStatus


_COLUMNS = 4


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("status")(status)


def status(
    inventories: Annotated[
        list[Path],
        typer.Argument(help="Inventory files, or folders of them.", metavar="INVENTORY…", show_default=False),
    ],
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
    record: Annotated[
        Path | None, typer.Option("--record", help="The record of runs. [default: the state directory]")
    ] = None,
) -> None:
    """What stands in Azure and what the last validation said, rack by rack. Changes nothing and asks no node.

    Clusters are asked side by side; one that cannot be reached does not cost the others.
    Exit status: 0 whatever the racks are like, 2 an inventory is wrong (the others are told), 3 not signed in or not
    permitted, 4 Azure cannot be reached.
    """
    from ndctl.cli.lost_answers import going_on_without
    from ndctl.cli.main import show_error
    from ndctl.cli.output import emit
    from ndctl.inventory.loader import load_each
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.status import exit_code, last_verdicts, status_dict, unread
    from ndctl.workflow.status import status as look

    loaded, errors = load_each(inventories, answers_lost=going_on_without)
    for error in errors:
        show_error(error)
    told = (*look(loaded, last_verdicts(record)), *unread(errors))
    code = exit_code(told)
    if output is Format.JSON:
        emit(dumps(status_dict(told, code)))
    else:
        emit("\n".join(line for one in told for line in cluster_lines(one)))
    raise typer.Exit(int(code))


def cluster_lines(one: ClusterStatus) -> list[str]:
    """One line for the cluster, then its racks, equal neighbours folded."""
    from ndctl.report.fold import node_set

    place = f"{one.region}/{one.zone}" if one.zone else one.region or ("" if one.on_azure else "static racks")
    lines = ["  ".join(part for part in (one.cluster, place, f" {_counts(one)}") if part)]
    lines += [f"  locked {lock}" for lock in one.locks]
    if one.last_change:
        lines.append(f"  last change: {one.last_change}")
    lines += [
        f"  deployment still running: {name}{f' since {since}' if since else ''}" for name, since in one.unfinished
    ]
    if one.error is not None:
        lines += _error_lines(one.error)
    blocks = any(rack.block for rack in one.racks)
    rows = [(rack.name, _row(rack, one, blocks)) for rack in one.racks]
    folded = [
        (node_set([name for name, _ in group]), row)
        for row, group in ((row, list(group)) for row, group in groupby(rows, key=lambda pair: pair[1]))
    ]
    width = max((len(name) for name, _ in folded), default=0)
    columns = [max((len(row[at]) for _, row in folded), default=0) for at in range(_COLUMNS)]
    for name, row in folded:
        cells = (cell.ljust(wide) for cell, wide in zip(row, columns, strict=True) if wide)
        lines.append(f"  {name.ljust(width)}  {'  '.join(cells)}".rstrip())
    return lines


def _counts(one: ClusterStatus) -> str:
    if one.unread:
        return "its inventory is wrong"
    if one.error is not None:
        return "not reached"
    racks = f"{len(one.racks)} rack{'' if len(one.racks) == 1 else 's'}"
    if not one.on_azure:
        return racks
    if not one.group_exists:
        return f"{racks} asked for, nothing deployed: resource group {one.resource_group} does not exist"
    asked = [rack for rack in one.racks if rack.asked]
    whole = sum(rack.as_asked for rack in asked)
    return (
        f"{racks}: {whole} with all VMs running"
        + (f", {len(asked) - whole} not" if whole < len(asked) else "")
        + (f", {len(one.racks) - len(asked)} beyond the inventory" if len(asked) < len(one.racks) else "")
    )


def _row(rack: RackStatus, one: ClusterStatus, blocks: bool) -> tuple[str, ...]:
    """block, scale set, running VMs, last validation; a cluster without any blocks has no word on them."""
    block, live = rack.block, rack.live
    validated = "never validated"
    if rack.last is not None:
        age = f" {_age(rack.age_s)} ago" if rack.age_s is not None else ""
        validated = f"{rack.last.verdict or 'unknown'}{age} ({rack.last.level}, run {rack.last.run})"
    if not one.on_azure or one.error is not None or not one.group_exists:
        return ("", "", "", validated)
    held = "no block" if blocks else ""
    if block is not None:
        held = f"block {'?' if block.current is None else block.current}/{block.capacity}{_odd(block.provisioning)}"
    there = "no scale set"
    if live is not None:
        there = f"scale set {live.scale_set.capacity}{_odd(live.scale_set.provisioning)}"
    asked = f"running {rack.running}/{rack.asked}" if rack.asked else f"running {rack.running}, beyond the inventory"
    return (held, there, asked, validated)


def _odd(state: str) -> str:
    """A provisioning state is said where it is not the usual one."""
    return "" if state.casefold() == "succeeded" else f" {state or 'in an unknown state'}"


def _error_lines(error: NdctlError) -> list[str]:
    errors = error.errors if isinstance(error, ManyErrors) else [error]
    lines = []
    for one in errors:
        where = f"{one.where}: " if one.where else ""
        lines.append(f"  could not be asked: {where}{one.message}")
        if one.hint:
            lines.append(f"    next: {one.hint}")
    return lines


def _age(seconds: float | None) -> str:
    """45s, 12m, 3h, 5d: the largest unit that fits."""
    whole = max(0, round(seconds or 0))
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if whole >= length:
            return f"{whole // length}{unit}"
    return f"{whole}s"
