"""ndctl destroy: remove what ndctl deployed, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.plan import Format

if TYPE_CHECKING:
    from ndctl.workflow.destroy import DestroyPlan, DestroyResult


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("destroy")(destroy)


def destroy(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for the cluster's name.")] = False,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
) -> None:
    """Delete what carries the cluster's tags. 'protect: true' in the inventory always wins.

    A resource group that ndctl did not create, or that holds anything else, stays.
    Exit status: 0 all gone, 4 protected, 6 some things could not be deleted, 5 none could, 3 not signed in or not
    permitted, 10 another ndctl holds the cluster, 130 interrupted.
    """
    from ndctl.azure.clients import connect
    from ndctl.cli.consent import ask
    from ndctl.cli.output import emit, say
    from ndctl.cli.progress import progress
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.destroy import destroy as destroy_plan
    from ndctl.workflow.destroy import plan_destroy, refuse_protected
    from ndctl.workflow.locks import cluster_lock
    from ndctl.workflow.state_dir import cluster_dir

    loaded = load(inventory)
    refuse_protected(loaded)
    name = loaded.inventory.cluster
    with cluster_lock(cluster_dir(loaded.inventory, loaded.path), name, "destroy"):
        clients = connect(loaded)
        try:
            plan = plan_destroy(loaded, clients)
            say("\n".join(plan_lines(plan)))
            if not plan.nothing_to_do:
                ask(f"Delete these {len(plan.resources)} resources of {name}?", name, yes=yes)
            with progress() as sink:
                result = destroy_plan(plan, clients, on_event=sink)
        finally:
            clients.close()
    if output is Format.JSON:
        emit(dumps(result.as_dict()))
    else:
        emit("\n".join(result_lines(result)))
    raise typer.Exit(int(result.exit_code))


def plan_lines(plan: DestroyPlan) -> list[str]:
    """What will go, in the order in which it goes, and what stays."""
    from ndctl.workflow.destroy import label

    if plan.nothing_to_do:
        return [f"{plan.cluster}: nothing in {plan.resource_group} carries its tags"]
    lines = [f"{plan.cluster}: will be deleted from resource group {plan.resource_group}:"]
    lines += [f"  - {label(one)}" for one in plan.resources]
    if plan.deletes_group:
        lines.append(f"  - resource group {plan.resource_group} itself, which ndctl created")
    elif plan.group.exists:
        why = "it holds other things" if plan.group.created_by_ndctl else "ndctl did not create it"
        lines.append(f"  = resource group {plan.resource_group} stays: {why}")
    lines += [f"  = {label(one)} stays: not of this cluster" for one in plan.group.foreign]
    return lines


def result_lines(result: DestroyResult) -> list[str]:
    """The answer: how much is gone, and by name what is not and why."""
    from ndctl.workflow.destroy import label

    plan = result.plan
    if plan.nothing_to_do:
        return [f"{plan.cluster}: nothing to delete"]
    lines = [f"{plan.cluster}: {len(result.gone)} of {len(plan.resources)} resources deleted"]
    if result.group_deleted:
        lines[0] += f", and resource group {plan.resource_group}"
    for one, fault in result.failed:
        lines.append(f'  {label(one)}  not deleted: {fault.summary}: "{fault.innermost_message}"')
        lines.append(f"    next: {fault.next_step}")
    lines += [f"  {label(one)}  not deleted: interrupted before its turn" for one in result.left]
    if result.group_fault:
        fault = result.group_fault
        lines.append(
            f'  resource group {plan.resource_group}  not deleted: {fault.summary}: "{fault.innermost_message}"'
        )
    if result.interrupted:
        lines.append(f"interrupted: Azure goes on with what was sent; next: ndctl destroy {plan.inventory}")
    return lines
