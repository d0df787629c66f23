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
    break_lock: Annotated[
        str,
        typer.Option("--break-lock", metavar="HOLDER", help="Take the lock from this holder, who is gone for good."),
    ] = "",
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
) -> None:
    """Delete what carries the cluster's tags. 'protect: true' in the inventory always wins.

    A resource group that ndctl did not create, or that holds anything else, stays.
    Exit status: 0 all gone, 4 protected, 6 some things could not be deleted, 5 none could, 3 not signed in or not
    permitted, 10 another ndctl holds the cluster, 130 interrupted.
    """
    from dataclasses import replace

    from ndctl.cli.consent import ask
    from ndctl.cli.interrupts import Interrupts
    from ndctl.cli.lost_answers import going_on_without
    from ndctl.cli.output import emit, say
    from ndctl.cli.progress import progress
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.destroy import destroy as destroy_plan
    from ndctl.workflow.destroy import plan_destroy, refuse_protected
    from ndctl.workflow.writing import writing

    loaded = load(inventory, answers_lost=going_on_without)
    refuse_protected(loaded)
    name = loaded.inventory.cluster
    with writing(loaded, "destroy", break_lock=break_lock, say=say) as held:
        plan = plan_destroy(loaded, held.clients)
        say("\n".join(plan_lines(plan)))
        if not plan.nothing_to_do:
            ask(f"Delete these {len(plan.resources)} resources of {name}?", name, yes=yes)
        interrupts = Interrupts(say)
        meaning = f"Azure goes on with what was sent (run {held.run}); go on with: ndctl destroy {inventory}"
        with progress() as sink, interrupts.first(held.lock.stop.set, meaning):
            result = destroy_plan(plan, held.clients, on_event=sink, stop=held.lock.stop)
        result = replace(result, interrupted=result.interrupted or interrupts.happened)
        held.line.ended(result.summary, result.exit_code, tag=plan.group.exists)
        result = replace(result, run=held.run, calls=held.clients.tally.calls(), lost_lock_to=held.lock.lost_to)
    say(result.calls.line())
    if output is Format.JSON:
        emit(dumps(result.as_dict()))
    else:
        emit("\n".join(result_lines(result)))
    raise typer.Exit(int(result.exit_code))


def plan_lines(plan: DestroyPlan) -> list[str]:
    """What will go, in the order in which it goes, and what stays."""
    from ndctl.workflow.destroy import label

    if not plan.group.exists:
        return [f"{plan.cluster}: resource group {plan.resource_group} does not exist"]
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
    if not plan.group.exists:
        return [f"{plan.cluster}: nothing to delete, resource group {plan.resource_group} does not exist"]
    if plan.nothing_to_do:
        return [f"{plan.cluster}: nothing to delete"]
    lines = [f"{plan.cluster}: {result.summary}"]
    holds = result.held_by
    for one, fault in sorted(result.failed, key=lambda entry: entry[0].id in holds):
        if one.id in holds:
            lines.append(f"  {label(one)}  not deleted: still in use by {label(holds[one.id])}, see above")
            continue
        lines.append(f'  {label(one)}  not deleted: {fault.summary}: "{fault.innermost_message}"')
        lines.append(f"    next: {fault.next_step}")
    lines += [f"  {label(one)}  not deleted: interrupted before its turn" for one in result.left]
    if result.group_fault:
        fault = result.group_fault
        lines.append(
            f'  resource group {plan.resource_group}  not deleted: {fault.summary}: "{fault.innermost_message}"'
        )
        lines.append(f"    next: {fault.next_step}")
    elif result.group_stays:
        lines.append(f"  resource group {plan.resource_group} stays: {result.group_stays}")
    if result.interrupted:
        lines.append(f"interrupted: Azure goes on with what was sent; next: ndctl destroy {plan.inventory}")
    return lines
