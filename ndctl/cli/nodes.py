"""ndctl nodes: which nodes there are, by name and address."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.model.errors import ExitCode

if TYPE_CHECKING:
    from ndctl.model.places import Cluster


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    HOSTFILE = "hostfile"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("nodes")(nodes)


def nodes(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    output: Annotated[
        Format, typer.Option("-o", "--output", help="hostfile: one address a line, in the order of names.")
    ] = Format.TABLE,
) -> None:
    """List the nodes. A name keeps its VM, whatever Azure's instance ids do.

    Exit status: 0, 8 when a rack has fewer nodes than asked for, 3 not signed in or not permitted, 4 Azure cannot be
    reached.
    """
    from ndctl.cli.output import emit, say
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.nodes import discover, nodes_dict

    loaded = load(inventory)
    cluster = discover(loaded)
    if output is Format.JSON:
        emit(dumps(nodes_dict(loaded, cluster)))
    elif output is Format.HOSTFILE:
        for node in cluster.nodes:
            if node.address:
                emit(node.address)
    else:
        emit("\n".join(table_lines(cluster)))
    short = [rack for rack in cluster.racks if sum(bool(node.address) for node in rack.nodes) < rack.expected_nodes]
    for rack in short:
        say(f"{rack.name}: {sum(bool(n.address) for n in rack.nodes)} of {rack.expected_nodes} nodes have an address")
    if short:
        raise typer.Exit(int(ExitCode.INCOMPLETE))


def table_lines(cluster: Cluster) -> list[str]:
    """A line a node, columns as wide as they need to be; columns nobody fills are left out."""
    if not cluster.nodes:
        return [f"{cluster.name}: no nodes"]
    titles = ("node", "address", "instance", "state", "subgroup", "vm id")
    rows = [
        (
            node.name,
            node.address + (f":{node.port}" if node.address and node.port != 22 else ""),
            node.instance_id,
            node.state,
            node.subgroup,
            node.vm_id,
        )
        for node in cluster.nodes
    ]
    used = [index for index in range(len(titles)) if any(row[index] for row in rows)]
    table = [tuple(titles[i] for i in used), *(tuple(row[i] or "-" for i in used) for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(used))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return [*lines, *(f"{rack.name}  no nodes" for rack in cluster.racks if not rack.nodes)]
