"""ndctl preflight: what can be known before a deployment, line by line."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndctl.model.preflight import Preflight, PreflightLine
    from ndctl.report.lines import Line


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("preflight")(preflight)


def _verbs(incomplete: str) -> list[str]:
    """For the shell's completion."""
    from ndctl.azure.roles import verb_names

    return [one for one in verb_names() if one.startswith(incomplete)]


def preflight(
    inventories: Annotated[
        list[Path], typer.Argument(help="Inventory files or folders.", metavar="INVENTORY…", show_default=False)
    ],
    verbs: Annotated[
        str,
        typer.Option(
            "--for",
            help="Verbs whose permissions are compared with what the identity has, e.g. deploy,validate,repair.",
            autocompletion=_verbs,
        ),
    ] = "preflight,plan,deploy,validate",
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
) -> None:
    """Say what would refuse a deployment before it is made. Changes nothing.

    Each line is proved, refused, or cannot be proved before deploy, with who says so and one next step: sign-in,
    permissions, resource providers, size in region and zone, vCPU quota, image, free addresses, whole racks, capacity
    blocks, names, SSH key, template sizes.

    Exit status: 0 nothing is refused, 3 not signed in or a permission is missing, 4 a line is refused or Azure cannot
    be reached, 2 usage or inventory. Of several inventories the worst.
    """
    from ndctl.azure.roles import verbs_of
    from ndctl.cli.output import emit, show_lines, verbosity
    from ndctl.cli.progress import progress
    from ndctl.inventory.loader import load_many
    from ndctl.model.jsonable import dumps
    from ndctl.model.preflight import preflights_dict
    from ndctl.workflow.preflight import preflight_all

    named = verbs_of(verbs)
    loaded = load_many(inventories)
    with progress() as sink:
        found = preflight_all(loaded, named, sink)
    told = preflights_dict(found)
    if output is Format.JSON:
        emit(dumps(told))
    else:
        show_lines(line for one in found for line in _lines(one, verbose=verbosity() > 0))
    raise typer.Exit(int(told["exit_code"]))


# What stands in front of a line, and how it is coloured.
_MARKS = {"proved": ("proved", "green"), "refused": ("REFUSED", "bold red")}
_OPEN = ("unproved", "yellow")
_MARK_WIDTH = 8


def _lines(found: Preflight, *, verbose: bool) -> Iterator[Line]:
    """One line an answer; under what is not proved, the next step; with -v who says so."""
    from ndctl.model.preflight import Standing
    from ndctl.report.lines import Line

    place = f"{found.region}/{found.zone}" if found.zone else found.region
    counts = ", ".join(f"{found.count(standing)} {standing.value}" for standing in Standing)
    yield Line(f"{found.cluster}  {place}   {counts}", "bold")
    width = max(len(line.title) for line in found.lines)
    for line in found.lines:
        yield from _answer(line, width, verbose)


def _answer(line: PreflightLine, width: int, verbose: bool) -> Iterator[Line]:
    from ndctl.report.lines import Line

    mark, style = _MARKS.get(line.standing.value, _OPEN)
    indent = 2 + _MARK_WIDTH + 2 + width + 2
    rows = line.message.splitlines() or [""]
    yield Line(f"  {mark:<{_MARK_WIDTH}}  {line.title:<{width}}  {rows[0]}", style if line.refused else "", indent)
    for row in rows[1:]:
        yield Line(f"{' ' * indent}{row}", "", indent)
    if line.next_step:
        yield Line(f"{' ' * indent}next: {line.next_step}", "", None)
    if verbose:
        yield Line(f"{' ' * indent}source: {line.source}", "dim", indent)
