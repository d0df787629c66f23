"""ndctl plan: what a deployment would change, rack by rack."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ndctl.model.errors import ExitCode, NdctlError, worst_exit


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("plan")(plan)


def plan(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the plan here, for: ndctl deploy INVENTORY --plan FILE.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit status 9 when there are changes.")
    ] = False,
) -> None:
    """Ask Azure what a deployment would change. Changes nothing.

    Exit status: 0, 2 usage or inventory, 3 not signed in or not permitted, 4 Azure refuses a step or cannot be reached.
    """
    from ndctl.azure.clients import connect
    from ndctl.cli.output import emit, say, verbosity
    from ndctl.cli.plan_text import plan_lines
    from ndctl.cli.progress import progress
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.plan import make_plan
    from ndctl.workflow.plan_file import plan_dict, refuse_out, write_plan
    from ndctl.workflow.prepare import render_to_deploy

    file = _file(out)
    if file is not None:
        refuse_out(file)
    loaded = load(inventory)
    rendered = render_to_deploy(loaded)
    clients = connect(loaded)
    try:
        with progress() as sink:
            made = make_plan(loaded, rendered, clients, sink)
    finally:
        clients.close()
    if file is not None:
        write_plan(made, file)
    if output is Format.JSON:
        emit(dumps(plan_dict(made)))
    else:
        emit("\n".join(plan_lines(made, verbose=verbosity() > 0)))
    if file is not None:
        again = f"ndctl deploy {inventory} --plan {file}"
        told = f"{file} written, digest {made.digest[:12]}; deploy exactly this with: {again}"
        (say if output is Format.JSON else emit)(told)
    codes = [made.exit_code]
    if detailed_exitcode and made.has_changes:
        codes.append(ExitCode.CHANGES)
    raise typer.Exit(int(worst_exit(codes)))


def _file(out: str | None) -> Path | None:
    """What --out names. Raises NdctlError (exit 2) for nothing, and for "-", which is no file."""
    if out is None:
        return None
    if out in ("", "-"):
        said = "names no file" if out == "" else "would be a file called '-'"
        hint = "--out plan.json; the plan is printed, and not kept, with: -o json"
        raise NdctlError("plan.out", f"--out '{out}' {said}", hint=hint, exit_code=ExitCode.USAGE)
    return Path(out)
