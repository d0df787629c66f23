"""ndctl runs and ndctl report: what was found before, shown again from the record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ndctl.cli.validate import Format

RecordOption = Annotated[
    Path | None, typer.Option("--record", help="File that keeps the runs. [default: the state directory]")
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    app.command("runs")(runs)
    app.command("report")(report)


def runs(
    record: RecordOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, newest first.")] = 20,
    output: Annotated[str, typer.Option("-o", "--output", help="table or json.")] = "table",
) -> None:
    """List recorded validations, newest first."""
    from ndctl.cli.output import emit
    from ndctl.model.jsonable import dumps
    from ndctl.record.store import Store

    store = Store(record, create=False)
    lines = store.runs(limit)
    store.close()
    if output == "json":
        emit(dumps({"schema": "ndctl.runs/1", "runs": lines}))
        return
    if not lines:
        emit("no run is recorded yet")
        return
    emit(f"{'run':<22} {'started':<20} {'level':<10} {'exit':>4}  clusters")
    for line in lines:
        code = "cut" if line.exit_code < 0 else str(line.exit_code)
        emit(f"{line.id:<22} {line.started:<20} {line.level:<10} {code:>4}  {line.clusters}")


def report(
    run: Annotated[str, typer.Argument(help="Run id as `ndctl runs` lists it, or 'last'.")],
    output: Annotated[Format, typer.Option("-o", "--output", help="How it is printed.")] = Format.TABLE,
    record: RecordOption = None,
    raw: Annotated[
        str | None, typer.Option("--raw", help="Print the raw text behind a finding: its evidence, NODE/COMMAND.")
    ] = None,
) -> None:
    """Show a recorded validation again, exactly as it was judged."""
    from ndctl.cli.output import emit, show_run
    from ndctl.model.errors import ExitCode, NdctlError
    from ndctl.record.store import Store
    from ndctl.report.json_text import run_json
    from ndctl.report.junit import run_junit

    store = Store(record, create=False)
    try:
        kept = store.load(run)
        if raw is not None:
            node, _, command = raw.partition("/")
            for name, result in store.raw(kept.id, node):
                if result.id == command:
                    emit(result.stdout + result.stderr)
                    return
            have = ", ".join(sorted({f"{name}/{r.id}" for name, r in store.raw(kept.id, node)})[:8])
            raise NdctlError(
                "report.no-raw",
                f"run {kept.id} keeps no text {raw!r}",
                hint=f"it keeps {have}" if have else "ndctl report RUN -o json names each finding's evidence",
                exit_code=ExitCode.USAGE,
            )
    finally:
        store.close()
    if output is Format.JSON:
        emit(run_json(kept))
    elif output is Format.JUNIT:
        emit(run_junit(kept))
    else:
        show_run(kept)
