"""ndctl diagnose: SSH does not answer, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.plan import Format
from ndctl.model.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ndctl.workflow.unreachable import Diagnosis


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("diagnose")(diagnose)


def diagnose(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    nodes: Annotated[list[str], typer.Argument(help="Nodes, e.g. rack07-n11.", metavar="NODE...", show_default=False)],
    run_command_s: Annotated[
        float, typer.Option("--run-command-s", min=5.0, help="Seconds that Run Command may take on a VM.")
    ] = 120.0,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
) -> None:
    """Tell why a node does not answer by SSH: its VM is dead, its SSH server is broken, or the network is cut.

    Asks SSH, ARM's view of the VM and, through Azure's Run Command, the VM itself. Changes nothing.
    Exit status: 0 all answer, 7 a fault is seen (VM or SSH server), 8 not reachable and the VM is not at fault, or
    nobody tells, 2 no such node, 3 not signed in or not permitted, 4 Azure cannot be reached.
    """
    from contextlib import closing

    from ndctl.azure.clients import connect
    from ndctl.cli.output import emit
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.jump_hosts import learn_jump_host
    from ndctl.workflow.named_nodes import named_nodes, part_of
    from ndctl.workflow.nodes import discover, learn_host_keys
    from ndctl.workflow.transport import open_transport
    from ndctl.workflow.unreachable import DIAGNOSIS_SCHEMA
    from ndctl.workflow.unreachable import diagnose as look

    loaded = load(inventory)
    with closing(connect(loaded)) as clients:
        cluster = discover(loaded, clients)
        asked = named_nodes(cluster, nodes)
        learn_host_keys(loaded, part_of(cluster, asked), clients=clients)
        learn_jump_host(loaded, clients)
        with closing(open_transport(loaded, cluster, 8)) as transport:
            found = look(loaded, cluster, asked, clients, transport, run_command_s=run_command_s)
    told = [found[node.name] for node in asked]
    if output is Format.JSON:
        body = {"schema": DIAGNOSIS_SCHEMA, "cluster": cluster.name, "inventory": str(loaded.path)}
        emit(dumps({**body, "nodes": [one.as_dict() for one in told], "exit_code": int(_exit(told))}))
    else:
        emit("\n".join(line for one in told for line in lines(one)))
    raise typer.Exit(int(_exit(told)))


def lines(one: Diagnosis) -> list[str]:
    """What it is, what that rests on, what to do."""
    head = [f"{one.node.name}  {one.said}"]
    return [*head, *(f"  seen   {sign}" for sign in one.signs), *(f"  do     {step}" for step in one.do)]


def _exit(told: Iterable[Diagnosis]) -> ExitCode:
    from ndctl.model.status import Status

    found = {one.finding().status for one in told}
    if Status.FAIL in found:
        return ExitCode.REJECTED
    return ExitCode.INCOMPLETE if Status.UNKNOWN in found else ExitCode.OK
