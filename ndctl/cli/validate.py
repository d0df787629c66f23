"""ndctl validate: ask the racks, judge them, keep the record, print the answer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.status import Group, Level


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    JUNIT = "junit"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("validate")(validate)


def parse_groups(text: str | None) -> frozenset[Group]:
    """ "nvlink,gpu" -> groups; None -> all. Raises NdctlError exit 2."""
    if text is None:
        return frozenset(Group)
    known = {group.value: group for group in Group}
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in wanted if part not in known]
    if unknown or not wanted:
        raise NdctlError(
            "validate.only",
            f"unknown group {', '.join(map(repr, unknown)) or repr(text)}",
            hint=f"--only takes: {', '.join(known)}",
            exit_code=ExitCode.USAGE,
        )
    return frozenset(known[part] for part in wanted)


def validate(
    inventories: Annotated[list[Path], typer.Argument(help="Inventory files, or folders of them.", show_default=False)],
    rack: Annotated[str | None, typer.Option("--rack", help="Only these racks, e.g. 1,3-5.")] = None,
    nodes: Annotated[str | None, typer.Option("--nodes", help="Only these nodes, e.g. 'rack01-n[01-18]'.")] = None,
    only: Annotated[
        str | None, typer.Option("--only", help="Only these groups: nvlink, infiniband, nccl, gpu, host.")
    ] = None,
    level: Annotated[
        Level, typer.Option("--level", help="quick: passive, safe beside jobs. standard: and short active tests.")
    ] = Level.STANDARD,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
    force: Annotated[bool, typer.Option("--force", help="Run active tests on nodes that are in use, too.")] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="Time for each rack's active tests, e.g. 15m: what has found most per minute first; the rest is left "
            "out, and said.",
        ),
    ] = None,
    max_nodes_under_test: Annotated[
        int | None,
        typer.Option("--max-nodes-under-test", min=1, help="Nodes of the whole run under active test at one time."),
    ] = None,
    fanout: Annotated[int, typer.Option("--fanout", min=1, max=512, help="Nodes asked at once.")] = 64,
    record: Annotated[
        Path | None, typer.Option("--record", help="File that keeps the run. [default: the state directory]")
    ] = None,
    relearn_host_keys: Annotated[
        bool, typer.Option("--relearn-host-keys", help="Learn SSH host keys again through Azure before connecting.")
    ] = False,
) -> None:
    """Ask racks how they are and judge them.

    Exit status: 0 every rack accepted or degraded, 7 a rack is rejected, 8 a rack is incomplete
    (nodes missing, unreachable or unknown, or a required check skipped).
    """
    from ndctl.cli.output import emit, note, show_run
    from ndctl.report.json_text import run_json
    from ndctl.report.junit import run_junit
    from ndctl.workflow.budget import parse_budget
    from ndctl.workflow.select import parse_nodes, parse_numbers
    from ndctl.workflow.validate import Request, validate_inventories

    request = Request(
        paths=tuple(inventories),
        racks=parse_numbers(rack) if rack is not None else None,
        nodes=parse_nodes(nodes) if nodes is not None else None,
        groups=parse_groups(only),
        level=level,
        force=force,
        fanout=fanout,
        record=record,
        relearn_host_keys=relearn_host_keys,
        max_nodes_under_test=max_nodes_under_test,
        budget_s=parse_budget(budget) if budget is not None else None,
    )
    run = validate_inventories(request, on_event=note)
    if output is Format.JSON:
        emit(run_json(run))
    elif output is Format.JUNIT:
        emit(run_junit(run))
    else:
        show_run(run)
    raise typer.Exit(int(run.exit_code))
