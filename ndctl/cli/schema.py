"""ndctl schema: the published form of what ndctl prints for machines."""

from __future__ import annotations

from typing import Annotated

import typer


def _names(incomplete: str) -> list[str]:
    """For the shell's completion."""
    from ndctl.report import schemas

    return [one for one in schemas.names() if one.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("schema")(schema)


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            help="run, judge, plan, …; without it they are listed.", show_default=False, autocompletion=_names
        ),
    ] = None,
) -> None:
    """Print the JSON Schema (draft 2020-12) of an answer in JSON, e.g. of `ndctl validate -o json`."""
    from ndctl.cli.output import emit
    from ndctl.report import schemas

    if name is not None:
        emit(schemas.text(name))
        return
    width = max(map(len, schemas.names()))
    emit("\n".join(f"{one:<{width}}  {schemas.load(one)['title']}" for one in schemas.names()))
