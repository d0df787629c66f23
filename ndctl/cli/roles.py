"""ndctl roles: the permissions that each verb needs, and an Azure role definition with just those."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.model.errors import ExitCode, NdctlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndctl.azure.roles import When
    from ndctl.report.lines import Line

_NO_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("roles")(roles)


def roles(
    inventories: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Only what these inventories come to need, in their subscriptions.",
            metavar="INVENTORY…",
            show_default=False,
        ),
    ] = None,
    verbs: Annotated[
        str | None,
        typer.Option("--for", help="Verbs, e.g. deploy,validate. [default: all]", show_default=False),
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option("--subscription", help="Where the role can be assigned; default: the inventories'.", metavar="ID"),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the role.", show_default=False)] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="json: the role definition.")] = Format.TABLE,
) -> None:
    """Print the least permissions of each verb, or an Azure custom role that holds just them.

    Azure CLI takes it as it is: ndctl roles INVENTORY --for deploy -o json > role.json, then
    az role definition create --role-definition role.json

    Exit status: 0, 2 usage or inventory. Nothing is asked of Azure.
    """
    from ndctl.azure.roles import role_definition, verb_names, verbs_of
    from ndctl.cli.output import emit, say, show_lines
    from ndctl.model.jsonable import dumps

    named = verbs_of(verbs) if verbs is not None else verb_names()
    asked, subscriptions = _asked(inventories or [])
    if output is Format.TABLE:
        show_lines(_table(named, asked))
        return
    if subscription:
        subscriptions = [subscription]
    if not subscriptions:
        subscriptions = [_NO_SUBSCRIPTION]
        say(
            "AssignableScopes names a subscription that does not exist: give an inventory, or --subscription ID "
            "(az account show --query id prints it)"
        )
    called = name or ("ndctl" if verbs is None else f"ndctl {' '.join(named)}")
    scopes = [f"/subscriptions/{one}" for one in subscriptions]
    emit(dumps(role_definition(called, named, scopes, asked)))


def _asked(inventories: Sequence[Path]) -> tuple[list[When] | None, list[str]]:
    """(what the inventories come to need, their subscriptions); (None, []) without one: anything they could."""
    if not inventories:
        return None, []
    from ndctl.azure.asked import asked_of
    from ndctl.inventory.loader import load_many

    loaded = load_many(inventories)
    for one in loaded:
        if one.inventory.subscription is None:
            raise NdctlError(
                "roles.static",
                f"{one.inventory.cluster} lists static racks, which need no permission of Azure",
                where=one.where("static"),
                exit_code=ExitCode.USAGE,
            )
    asked = dict.fromkeys(when for one in loaded for when in asked_of(one))
    return list(asked), list(dict.fromkeys(str(one.inventory.subscription) for one in loaded))


_MARKS = {"V": "", "I": "inferred: ", "U": "not documented: "}


def _table(verbs: Sequence[str], asked: Sequence[When] | None) -> Iterator[Line]:
    """A verb, then each of its actions with why; what is not in Azure's lists says so."""
    from ndctl.azure.roles import needs_of
    from ndctl.report.lines import Line

    for verb in verbs:
        needs = needs_of(verb, asked)
        yield Line(f"{verb}  {len(needs)} actions", "bold")
        width = max(len(need.action) for need in needs)
        for need in needs:
            yield Line(f"  {need.action:<{width}}  {need.scope:<12}  {need.why}", "", width + 18)
            if _MARKS[need.mark]:
                yield Line(f"  {'':<{width}}  {'':<12}  {_MARKS[need.mark]}{need.source}", "dim", width + 18)
