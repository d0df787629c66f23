"""ndctl checks: what is asked of a rack, check by check."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

CHECKS_SCHEMA = "ndctl.checks/1"


class ListFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("checks")(checks)


def checks(
    output: Annotated[ListFormat, typer.Option("-o", "--output", help="How they are printed.")] = ListFormat.TABLE,
) -> None:
    """List every check of `ndctl validate`: the names `disabled_checks` takes, by group and level."""
    from ndctl.cli.output import emit
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.known_checks import known_checks

    known = known_checks()
    if output is ListFormat.JSON:
        emit(dumps({"schema": CHECKS_SCHEMA, "checks": known}))
        return
    rows = [("check", "group", "level", "needed", "what it says")]
    rows += [(one.id, one.group, one.level, "required" if one.required else "optional", one.title) for one in known]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    emit("\n".join("  ".join((*map(str.ljust, row[:4], widths), row[4])).rstrip() for row in rows))
