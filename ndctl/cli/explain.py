"""ndctl explain: what a check, a finding, an XID or an Azure error code means, and what to do."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("explain")(explain)


def _completions(incomplete: str) -> list[str]:
    from ndctl.checks.explain import words

    return [word for word in words() if word.casefold().startswith(incomplete.casefold())]


def _profiles(incomplete: str) -> list[str]:
    from ndctl.profiles import names

    return [name for name in names() if name.startswith(incomplete)]


def explain(
    word: Annotated[
        list[str] | None,
        typer.Argument(
            help="A check, a finding's id, an XID or an Azure error code, e.g. nvlink.links, 149, AllocationFailed.",
            metavar="CHECK|XID|ERROR-CODE",
            show_default=False,
            autocompletion=_completions,
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", help="Whose thresholds are shown.", autocompletion=_profiles)
    ] = "gb300",
    output: Annotated[Format, typer.Option("-o", "--output", help="How it is printed.")] = Format.TEXT,
) -> None:
    """Explain a word of an answer: what it means, how it is measured, known false alarms, what to do.

    Without a word, what can be explained is listed. Exit status: 0, 2 when nothing is known of the word.
    """
    from ndctl.checks.explain import EXPLAIN_SCHEMA, listing
    from ndctl.checks.explain import explain as explanation_of
    from ndctl.cli.output import emit, show_lines
    from ndctl.model.jsonable import dumps, jsonable
    from ndctl.profiles import load
    from ndctl.report.explained import explanation_lines
    from ndctl.workflow.known_checks import known_checks

    titles = {one.id: one.title for one in known_checks()}
    found = explanation_of(" ".join(word), load(profile), titles) if word else listing(titles)
    if output is Format.JSON:
        emit(dumps({"schema": EXPLAIN_SCHEMA, **jsonable(found)}))
        return
    show_lines(explanation_lines(found.word, found.means, found.facts, found.lists))
