"""ndctl init: a commented inventory to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ndctl.cli.output import emit, say
from ndctl.model.errors import ExitCode, NdctlError, Where


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command(name="init")(init)


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the cluster, e.g. swc-a.")],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="File to write [default: NAME.yaml]; - prints.")
    ] = None,
    static: Annotated[bool, typer.Option("--static", help="For racks that are not deployed by ndctl.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it is there.")] = False,
) -> None:
    """Write a commented inventory to start from; it lints and renders as it is."""
    from ndctl.inventory.starter import starter

    text = starter(name, static=static)
    if output == "-":
        emit(text)
        return
    file = Path(output or f"{name}.yaml")
    _write(file, text, force)
    emit(str(file))
    say(f"next: edit {file}, then  ndctl inventory lint {file}")


def _write(file: Path, text: str, force: bool) -> None:
    try:
        with file.open("w" if force else "x", encoding="utf-8", newline="\n") as handle:
            handle.write(text)
    except FileExistsError as error:
        raise NdctlError(
            "init.exists",
            "is there already and was left as it is",
            hint="-o FILE writes another file, --force overwrites this one",
            where=Where(file),
            exit_code=ExitCode.USAGE,
        ) from error
    except (OSError, ValueError) as error:
        raise NdctlError(
            "init.cannot-write",
            f"cannot be written: {getattr(error, 'strerror', None) or error}",
            hint="-o FILE writes another file",
            where=Where(file),
            exit_code=ExitCode.USAGE,
        ) from error
