"""ndctl deploy: do a plan, the foundation first, then the racks side by side."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.plan import Format

if TYPE_CHECKING:
    from ndctl.workflow.deploy_result import DeployResult, RackEnd


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("deploy")(deploy)


def deploy(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Do exactly this plan, or refuse when it is stale.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    rack_deadline: Annotated[
        str, typer.Option("--rack-deadline", help="How long one rack is waited for, e.g. 45m or 2h.")
    ] = "90m",
    break_lock: Annotated[
        str,
        typer.Option("--break-lock", metavar="HOLDER", help="Take the lock from this holder, who is gone for good."),
    ] = "",
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
) -> None:
    """Deploy what the inventory asks for. Running it again goes on where it stopped; unchanged racks stay untouched.

    Exit status: 0 all racks as planned, 6 some, 5 none, 4 refused before anything was sent, 3 not signed in or not
    permitted, 10 another ndctl holds the cluster or the plan is stale, 130 interrupted (Azure goes on).
    """
    from dataclasses import replace

    from ndctl.cli.consent import ask
    from ndctl.cli.interrupts import Interrupts
    from ndctl.cli.output import emit, say, verbosity
    from ndctl.cli.plan_text import plan_lines
    from ndctl.cli.progress import progress
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.budget import parse_budget
    from ndctl.workflow.deploy import deploy as deploy_plan
    from ndctl.workflow.plan import make_plan
    from ndctl.workflow.plan_file import hold_plan, read_plan
    from ndctl.workflow.prepare import render_to_deploy
    from ndctl.workflow.unfinished import tell_unfinished
    from ndctl.workflow.writing import writing

    loaded = load(inventory)
    saved = read_plan(plan) if plan else None
    rendered = render_to_deploy(loaded)
    name = loaded.inventory.cluster
    deadline_s = parse_budget(rack_deadline, "--rack-deadline")
    with writing(loaded, "deploy", break_lock=break_lock, say=say) as held:
        clients = held.clients
        tell_unfinished(clients, name, say)
        with progress() as sink:
            made = make_plan(loaded, rendered, clients, sink)
        if saved is not None:
            hold_plan(saved, made)
        else:
            say("\n".join(plan_lines(made, verbose=verbosity() > 0)))
            if made.has_changes:
                ask(f"Deploy this to {name}?", "yes", yes=yes)
        interrupts = Interrupts(say)
        meaning = f"Azure goes on with what was sent (run {held.run}); go on with: ndctl deploy {inventory}"
        with progress() as sink, interrupts.first(held.lock.stop.set, meaning):
            result = deploy_plan(
                loaded,
                rendered,
                made,
                clients,
                on_event=sink,
                stop=held.lock.stop,
                rack_deadline_s=deadline_s,
                on_group=held.lock.acquire,
            )
        result = replace(result, interrupted=result.interrupted or interrupts.happened)
        held.line.ended(result.summary, result.exit_code, digest=made.digest, racks=result.fates)
        result = replace(result, run=held.run, calls=clients.tally.calls(), lost_lock_to=held.lock.lost_to)
    say(result.calls.line())
    if output is Format.JSON:
        emit(dumps(result.as_dict()))
    else:
        emit("\n".join(result_lines(result)))
    raise typer.Exit(int(result.exit_code))


def result_lines(result: DeployResult) -> list[str]:
    """The answer for people: one entry per rack that is not as planned, the others folded, then the count."""
    lines = []
    if result.foundation.fate.value != "unchanged":
        lines += _end_lines([result.foundation], result.inventory)
    for _, group in groupby(result.racks, key=_shape):
        lines += _end_lines(list(group), result.inventory)
    lines.append(result.summary)
    if result.racks and all(one.fate.value == "failed" and one.deployed_vms == 0 for one in result.racks):
        lines.append(
            "no rack has a VM; what was deployed for them (network, gateway, jump VM, as the inventory asks) stays and "
            f"may be charged: ndctl destroy {result.inventory} takes it away"
        )
    if result.lost_lock_to:
        lines.append(
            f"stopped: the cluster's lock was taken by {result.lost_lock_to}; Azure goes on with what was sent"
        )
    if result.interrupted:
        run = f" (run {result.run})" if result.run else ""
        lines.append(f"interrupted: Azure goes on with what was sent{run}")
        lines.append(f"next: ndctl deploy {result.inventory}   (goes on where this stopped)")
    return lines


def _shape(end: RackEnd) -> tuple[object, ...]:
    """Racks that ended equally are one entry; a partial rack always has its own."""
    own = end.name if end.fate.value == "partial" else ""
    fault = (end.fault.innermost_code, end.fault.innermost_message.replace(end.name, "rack")) if end.fault else None
    return (end.fate, end.expected_vms, end.deployed_vms, fault, end.detail, own)


def _end_lines(ends: list[RackEnd], inventory: str) -> list[str]:
    from ndctl.cli.progress import minutes

    first = ends[0]
    name = first.name if len(ends) == 1 else f"{first.name}-{ends[-1].name}"
    fate = first.fate.value
    took = f"   {minutes(max(one.seconds for one in ends))}" if first.seconds else ""
    if fate == "deployed" and first.expected_vms:
        each = " each" if len(ends) > 1 else ""
        return [f"{name}  deployed   {first.deployed_vms} VMs{each}{took}"]
    if fate in ("unchanged", "deployed", "not started"):
        return [f"{name}  {fate}{took}"]
    if fate == "still running":
        return [f"{name}  still running in Azure{': ' + first.detail if first.detail else ''}"]
    pad = " " * (len(name) + 2)
    count = f": {first.deployed_vms} of {first.expected_vms} VMs." if fate == "partial" else "."
    lines = [f"{name}  {fate}{count}"]
    if first.failed_instances:
        plural = "instance" if len(first.failed_instances) == 1 else "instances"
        lines[0] += f" {plural} {', '.join(first.failed_instances)}:"
    if first.fault:
        lines[0] += f" {first.fault.summary}"
        lines.append(f'{pad}innermost: "{first.fault.innermost_message}"')
        again = f"ndctl deploy {inventory} again later" if first.fault.retryable else first.fault.next_step
        if fate == "partial":
            again += f", or ndctl validate {inventory} --rack {int(first.name[4:])} on the {first.deployed_vms}"
        lines.append(f"{pad}next: {again}")
    elif fate in ("partial", "failed"):
        lines[0] += " Azure reports no error"
        lines.append(f"{pad}next: ndctl deploy {inventory} again")
    if first.detail:
        lines.append(f"{pad}{first.detail}")
    return lines
