"""ndctl repair: reset, restart, reboot, reimage, redeploy or replace nodes, with evidence first and a verdict last."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.plan import Format

if TYPE_CHECKING:
    from ndctl.workflow.repair_result import NodeEnd, RepairResult


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("repair")(repair)


def repair(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    nodes: Annotated[list[str], typer.Argument(help="Nodes, e.g. rack07-n11.", metavar="NODE...", show_default=False)],
    action: Annotated[
        str,
        typer.Option(
            "--action",
            metavar="ACTION",
            help="reset-gpu, restart-imex (over SSH); reboot, reimage, redeploy (another host), replace (another VM).",
            show_default=False,
        ),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also nodes that are in use, or of which nobody tells.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for the cluster's name.")] = False,
    max_per_rack: Annotated[
        int, typer.Option("--max-per-rack", min=1, help="Nodes of one rack that may be away at once.")
    ] = 1,
    max_percent: Annotated[
        float,
        typer.Option("--max-percent", min=0.0, max=100.0, help="Share of the cluster that may be away, at least 1."),
    ] = 5.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    break_lock: Annotated[
        str,
        typer.Option("--break-lock", metavar="HOLDER", help="Take the lock from this holder, who is gone for good."),
    ] = "",
    record: Annotated[
        Path | None, typer.Option("--record", help="File that keeps the runs. [default: the state directory]")
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
) -> None:
    """Repair nodes: save the evidence, act, wait, learn a new disk's host key through Azure, validate.

    The node must be idle (or --force). 'protect: true' in the inventory forbids what takes a disk: reimage, redeploy,
    replace. A repair that was cut off is gone on with by the same command.
    Exit status: the verdict's (0 accepted, 7 rejected, 8 incomplete or not back), 4 refused before anything was
    changed, 5 Azure or the node refused the action, 6 for some nodes, 2 usage, 3 not signed in or not permitted,
    10 another ndctl holds the cluster, 130 interrupted (says how to go on).
    """
    from ndctl.cli.consent import ask
    from ndctl.cli.interrupts import Interrupts
    from ndctl.cli.output import emit, note, say
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.repair import repair as do
    from ndctl.workflow.repair_hold import held as hold
    from ndctl.workflow.repair_plan import plan_repair
    from ndctl.workflow.repair_refusals import RepairRequest, parse_action

    request = RepairRequest(inventory, tuple(nodes), parse_action(action), force, max_per_rack, max_percent, record)
    loaded = load(inventory)
    name = loaded.inventory.cluster
    with hold(loaded, break_lock=break_lock, look_only=dry_run, say=say) as held:
        plan = plan_repair(loaded, request, held.clients)
        say("\n".join(plan.lines()))
        if dry_run:
            emit(dumps(plan.as_dict()) if output is Format.JSON else "nothing was done (--dry-run)")
            raise typer.Exit(0)
        ask(f"{request.action.value} {', '.join(one.node.name for one in plan.targets)}?", name, yes=yes)
        result = do(plan, held.clients, on_event=note, stop=held.stop, interruptible=Interrupts(say).first)
        if lost_to := held.lost_to():
            say(f"stopped: the cluster's lock was taken by {lost_to}; Azure goes on with what was sent")
        held.ended(result.summary, int(result.exit_code))
    if output is Format.JSON:
        emit(dumps(result.as_dict()))
    else:
        emit("\n".join(result_lines(result)))
    raise typer.Exit(int(result.exit_code))


def result_lines(result: RepairResult) -> list[str]:
    """The answer: each node, what changed of it, where its evidence is, the verdicts, and what to type next."""
    lines = [f"{result.cluster}  {result.summary}"]
    for end in result.ends:
        lines += _end_lines(end)
    for run in result.runs:
        racks = ", ".join(f"{rack.name} {rack.verdict.value}" for rack in run.racks)
        lines.append(f"{run.level}: {racks}   (ndctl report {run.id})")
    path = shlex.quote(result.inventory)
    again = f"ndctl repair {path} {' '.join(_not_back(result))} --action {result.request.action.value}"
    if result.interrupted and any(end.sent for end in result.ends):
        lines.append("interrupted: Azure goes on with what was sent")
    if _not_back(result):
        lines.append(f"next: {again}   (goes on where this stopped)")
    if silent := [end.node for end in result.ends if end.silent]:
        lines.append(f"next: ndctl diagnose {path} {' '.join(silent)}   (why it does not answer)")
    if unwell := next((run for run in result.runs if run.exit_code != 0 and not run.interrupted), None):
        lines.append(f"next: ndctl report {unwell.id}   (what was found, and what to do about each)")
    return lines


def _not_back(result: RepairResult) -> list[str]:
    return [end.node for end in result.ends if not (end.entry is not None and end.entry.ended)]


def _end_lines(end: NodeEnd) -> list[str]:
    lines = [f"{end.node}  {end.said}" + (f"; it was silent: {end.was}" if end.was else "")]
    entry = end.entry
    if end.error is not None:
        lines += [f"  failed    {end.error.message}", *([f"  next      {end.error.hint}"] if end.error.hint else [])]
    if entry is None:
        return lines
    if entry.error and end.error is None:
        lines.append(f"  failed    {entry.error}")
    if end.back:
        pairs = (
            ("host", entry.before.physical_host, entry.after.physical_host),
            ("vm id", entry.before.vm_id, entry.after.vm_id),
            ("instance", entry.before.instance_id, entry.after.instance_id),
        )
        for what, before, after in pairs:
            if before or after:
                same = "the same" if before == after else f"{before or 'not known'} -> {after or 'not known'}"
                lines.append(f"  {what:<9} {same}" + (f": {after}" if before == after else ""))
        if end.same_host and entry.action.value in ("redeploy", "replace"):
            lines.append("  mind      Azure gave the same host again: a fault of it is still there; report it first")
    if entry.evidence:
        lines.append(f"  evidence  {entry.evidence}")
    if entry.gap:
        lines.append(f"  gap       {entry.gap}")
    return lines
