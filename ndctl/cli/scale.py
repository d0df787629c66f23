"""ndctl scale: more racks, by the same way as deploy; or fewer, after asking whether anybody uses them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndctl.cli.plan import Format
from ndctl.model.errors import ExitCode, NdctlError

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.workflow.scale_in import Leaving
    from ndctl.workflow.writing import Writing

SCALE_SCHEMA = "ndctl.scale/1"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("scale")(scale)


def scale(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    racks: Annotated[int, typer.Option("--racks", min=1, max=1400, help="How many racks there are to be.")],
    write: Annotated[
        bool, typer.Option("--write", help="Also change 'racks:' in the inventory file; comments stay.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete racks whose nodes are in use or do not answer.")
    ] = False,
    break_lock: Annotated[
        str,
        typer.Option("--break-lock", metavar="HOLDER", help="Take the lock from this holder, who is gone for good."),
    ] = "",
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
) -> None:
    """Change how many racks a cluster has. The highest numbers come and go; the other racks' names stay.

    More: a plan as of ndctl deploy, the block of a new rack before its scale set. Fewer: what goes is listed, its nodes
    are asked whether they are idle or drained, and the cluster's name is asked for; 'protect: true' always wins.
    Exit status: 0 as asked, 2 usage, 3 not signed in or not permitted, 4 refused before anything was changed
    (protected, in use, Azure says no), 5 and 6 none or not all of it was done, 10 another ndctl holds the cluster,
    130 interrupted.
    """
    from ndctl.cli.output import emit, say
    from ndctl.inventory.loader import load
    from ndctl.inventory.rewrite import with_racks, write_racks
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.scale_in import leaving
    from ndctl.workflow.writing import writing

    loaded = load(inventory)
    if loaded.inventory.static is not None:
        raise NdctlError(
            "scale.static", f"{inventory} lists static racks, which are not deployed", exit_code=ExitCode.USAGE
        )
    wished = with_racks(loaded, racks)

    def note_wish() -> None:
        """Before anything is sent: what is cut off can then be gone on with by deploy or scale."""
        if write and racks != loaded.inventory.racks:
            write_racks(loaded, racks)
            say(f"{inventory}: racks: {loaded.inventory.racks} -> {racks}")

    with writing(loaded, "scale", break_lock=break_lock, say=say) as held:
        goes = leaving(wished, racks, held.clients)
        direction = "in" if goes.racks else "out" if racks > goes.standing else "none"
        work = _fewer if goes.racks else _more
        told, lines, code = work(wished, held, goes, yes=yes, force=force, before=note_wish)
    if output is Format.JSON:
        body: dict[str, Any] = {
            "schema": SCALE_SCHEMA,
            "cluster": loaded.inventory.cluster,
            "inventory": str(inventory),
        }
        body |= {"racks": racks, "racks_before": goes.standing, "racks_in_inventory": loaded.inventory.racks}
        body |= {"direction": direction}
        emit(dumps({**body, "written": write, **told, "exit_code": int(code)}))
    else:
        again = f"ndctl scale {inventory} --racks {racks}"
        emit("\n".join(_named_anew(line, str(inventory), again) for line in lines))
    if not write and racks != loaded.inventory.racks:
        say(f"note: {inventory} still says racks: {loaded.inventory.racks}; --write changes it")
    raise typer.Exit(int(code))


def _named_anew(line: str, inventory: str, again: str) -> str:
    """What goes on with this is this verb: destroy would take all racks, deploy those of the file."""
    for verb in ("deploy", "destroy"):
        line = line.replace(f"ndctl {verb} {inventory}", again)
    return line


def _more(
    wished: Loaded, held: Writing, goes: Leaving, *, yes: bool, force: bool, before: Any
) -> tuple[dict[str, Any], list[str], ExitCode]:
    """As ndctl deploy would with so many racks in the inventory."""
    from dataclasses import replace

    from ndctl.cli.consent import ask
    from ndctl.cli.deploy import result_lines
    from ndctl.cli.output import say, verbosity
    from ndctl.cli.plan_text import plan_lines
    from ndctl.cli.progress import progress
    from ndctl.workflow.deploy import deploy
    from ndctl.workflow.plan import make_plan
    from ndctl.workflow.prepare import render_to_deploy

    rendered = render_to_deploy(wished)
    with progress() as sink:
        plan = make_plan(wished, rendered, held.clients, sink)
    say("\n".join(plan_lines(plan, verbose=verbosity() > 0)))
    if plan.has_changes:
        ask(f"Deploy this to {plan.cluster}?", "yes", yes=yes)
    before()
    with progress() as sink:
        result = deploy(
            wished, rendered, plan, held.clients, on_event=sink, stop=held.lock.stop, on_group=held.lock.acquire
        )
    held.line.ended(result.summary, result.exit_code, digest=plan.digest, racks=result.fates)
    result = replace(result, run=held.run, calls=held.clients.tally.calls(), lost_lock_to=held.lock.lost_to)
    say(result.calls.line())
    return {"deploy": result.as_dict(), "destroy": None}, result_lines(result), result.exit_code


def _fewer(
    wished: Loaded, held: Writing, goes: Leaving, *, yes: bool, force: bool, before: Any
) -> tuple[dict[str, Any], list[str], ExitCode]:
    """Delete exactly what was listed, after everybody who could object was asked."""
    from dataclasses import replace

    from ndctl.cli.consent import ask
    from ndctl.cli.destroy import result_lines
    from ndctl.cli.output import say
    from ndctl.cli.progress import progress
    from ndctl.model.places import Cluster
    from ndctl.workflow.destroy import destroy, label, refuse_protected
    from ndctl.workflow.execute import learn_keys
    from ndctl.workflow.nodes import discover
    from ndctl.workflow.scale_in import refuse_in_use

    refuse_protected(wished)
    name = wished.inventory.cluster
    go = "1 rack goes" if len(goes.racks) == 1 else f"{len(goes.racks)} racks go"
    say(f"{name}: {go}, {_vms(sum(goes.vms.values()))}:")
    for rack in goes.racks:
        of_rack = (label(one) for one in goes.plan.resources if one.rack == rack)
        say(f"  - {rack}  {_vms(goes.vms[rack])}: {', '.join(of_rack)}")
    if not force:
        everything = discover(wished, held.clients)
        part = Cluster(name, tuple(rack for rack in everything.racks if rack.name in goes.racks))
        refuse_in_use(wished, part, learn=learn_keys)
    ask(f"Delete these racks of {name}?", name, yes=yes)
    before()
    with progress() as sink:
        result = destroy(goes.plan, held.clients, on_event=sink, stop=held.lock.stop)
    held.line.ended(result.summary, result.exit_code, racks=list(goes.racks))
    result = replace(result, run=held.run, calls=held.clients.tally.calls(), lost_lock_to=held.lock.lost_to)
    say(result.calls.line())
    return {"deploy": None, "destroy": result.as_dict()}, result_lines(result), result.exit_code


def _vms(count: int) -> str:
    return f"{count} VM{'' if count == 1 else 's'}"
