"""ndctl runs and ndctl report: what was found before, shown again from the record."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.validate import Format
from ndctl.model.errors import ExitCode, NdctlError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndctl.record.store import RunLine, Store

RecordOption = Annotated[
    Path | None,
    typer.Option("--record", help="File that keeps the runs. [default: the state directory]", show_default=False),
]


class ListFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    app.command("runs")(runs)
    app.command("report")(report)


def runs(
    record: RecordOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, newest first.")] = 20,
    output: Annotated[ListFormat, typer.Option("-o", "--output", help="How they are printed.")] = ListFormat.TABLE,
) -> None:
    """List recorded validations, newest first."""
    from ndctl.cli.output import emit
    from ndctl.record.store import Store
    from ndctl.report.json_text import runs_json

    with Store(record, create=False) as store:
        lines = store.runs(limit)
    if output is ListFormat.JSON:
        emit(runs_json(str(store.path), lines))
    else:
        emit("\n".join(table_lines(lines)))


def table_lines(lines: Sequence[RunLine]) -> list[str]:
    """A line a run, columns as wide as they need to be."""
    from ndctl.report.plain import one_line

    if not lines:
        return ["no run is recorded yet"]
    table = [("run", "started", "level", "exit", "clusters", "racks")]
    for line in lines:
        # A run without an exit status was killed, or is being made right now: nobody here can tell which.
        code = "open" if line.exit_code is None else str(line.exit_code)
        racks = ", ".join(f"{count} {verdict}" for verdict, count in line.verdicts.items())
        table.append((line.id, line.started, line.level, code, ", ".join(line.clusters), racks))
    cells = [[one_line(cell) for cell in row] for row in table]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def report(
    run: Annotated[str, typer.Argument(help="Run id as `ndctl runs` lists it, or 'last'.")] = "last",
    output: Annotated[Format, typer.Option("-o", "--output", help="How it is printed.")] = Format.TABLE,
    record: RecordOption = None,
    raw: Annotated[
        str | None,
        typer.Option(
            "--raw",
            help="Print the raw text behind a finding: its evidence, NODE/COMMAND. NODE alone lists its commands.",
            show_default=False,
        ),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            metavar="DIR",
            help="Write the run with all its texts into an empty folder, to hand on; ndctl judge --bundle judges it.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show a recorded validation again, exactly as it was judged.

    Exit status: 0 when it could be shown, whatever it says; the run's own exit status is part of the answer.
    """
    from ndctl.cli.output import emit, show_run
    from ndctl.record.store import Store
    from ndctl.report.json_text import run_json
    from ndctl.report.junit import run_junit

    with Store(record, create=False) as store:
        if raw is not None:
            _print_raw(store, store.resolve(run), raw)
            return
        if bundle is not None:
            from ndctl.cli.bundles import write

            write(store, run, bundle)
            return
        kept = store.load(run)
    if output is Format.JSON:
        emit(run_json(kept))
    elif output is Format.JUNIT:
        emit(run_junit(kept))
    else:
        show_run(kept)


def _print_raw(store: Store, run_id: str, wanted: str) -> None:
    """The text on stdout, as the checks saw it: stdout and stderr of the command. How it ended goes to stderr."""
    from ndctl.cli.output import emit, say, show_raw

    node, slash, command = wanted.partition("/")
    if not slash:
        names = store.raw_names(run_id, node)
        if names:
            emit("\n".join(f"{name}/{command}" for name, command in names))
            return
    elif (result := store.raw_one(run_id, node, command)) is not None:
        show_raw(result.stdout)
        show_raw(result.stderr)
        end = "timed out" if result.timed_out else "cut off" if result.exit_code is None else f"exit {result.exit_code}"
        cut = ", the text was cut at its limit" if result.truncated else ""
        say(f"{wanted}: {end} after {result.seconds:.1f} s{cut}")
        return
    nodes = {name for name, _ in store.raw_names(run_id)}
    kept = sorted(f"{name}/{command}" for name, command in store.raw_names(run_id, node)) or sorted(nodes)
    more = f" and {len(kept) - 8} more" if len(kept) > 8 else ""
    raise NdctlError(
        "report.no-raw",
        f"run {run_id} keeps no text {wanted!r}",
        hint=f"it keeps {', '.join(kept[:8])}{more}" if kept else "nothing was gathered in that run",
        exit_code=ExitCode.USAGE,
    )
