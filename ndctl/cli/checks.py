"""ndctl checks: what is asked of a rack, check by check."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndctl.model.status import Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndctl.inventory.loader import Loaded
    from ndctl.profiles.schema import Profile
    from ndctl.report.lines import Line
    from ndctl.workflow.known_checks import KnownCheck

CHECKS_SCHEMA = "ndctl.checks/1"


class ListFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("checks")(checks)


def checks(
    inventory: Annotated[
        Path | None, typer.Argument(help="Also say what this inventory switches off.", show_default=False)
    ] = None,
    level: Annotated[
        Level | None, typer.Option("--level", help="Only what this level asks. [default: all]", show_default=False)
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Whose thresholds are shown. [default: the inventory's, else gb300]"),
    ] = None,
    output: Annotated[ListFormat, typer.Option("-o", "--output", help="How they are printed.")] = ListFormat.TABLE,
) -> None:
    """List every check of `ndctl validate`, with level, cost, threshold and who says so.

    The names are those that `disabled_checks` takes; `ndctl explain CHECK` tells more of one.
    """
    from ndctl.cli.output import emit, show_lines
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.profiles import load as load_profile
    from ndctl.workflow.known_checks import known_checks

    loaded = load(inventory) if inventory is not None else None
    chosen = load_profile(profile) if profile else loaded.profile if loaded else load_profile("gb300")
    off = _switched_off(loaded)
    rows = [_row(one, chosen, off.get(one.id)) for one in known_checks() if level is None or level.includes(one.level)]
    if output is ListFormat.JSON:
        emit(dumps({"schema": CHECKS_SCHEMA, "profile": chosen.name, "checks": rows}))
        return
    show_lines(_table(rows))


def _switched_off(loaded: Loaded | None) -> dict[str, dict[str, Any]]:
    """Check id -> why, until when, and whether that still holds."""
    if loaded is None:
        return {}
    from datetime import UTC, datetime

    from ndctl.workflow.known_checks import refuse_wrongly_disabled, switched_off

    refuse_wrongly_disabled([loaded])
    today = datetime.now(UTC).date()
    # Where a check is named twice, one that holds goes before one that has expired.
    entries = sorted(switched_off(loaded, today), key=lambda entry: entry.in_force)
    return {
        entry.check: {"reason": entry.reason, "until": entry.until, "in_force": entry.in_force} for entry in entries
    }


def _row(one: KnownCheck, profile: Profile, disabled: dict[str, Any] | None) -> dict[str, Any]:
    from ndctl.checks.pages import page_of, threshold

    found = page_of(one.id)
    page = found[0] if found is not None and found[0].check == one.id else None
    limit = threshold(page, profile) if page and one.applies(profile) else None
    sources = (*limit.sources, *((page.source,) if page.source != "the profile" else ())) if page and limit else ()
    return {
        "id": one.id,
        "group": one.group,
        "level": one.level,
        "title": one.title,
        "required": one.required,
        "active": one.active,
        "applies": one.applies(profile),
        "cost_s": one.cost_s if one.active else page.cost_s if page else None,
        "threshold": limit.text if limit else "",
        "source": "; ".join(dict.fromkeys(sources)),
        "commands": one.commands,
        "disabled": disabled,
    }


def _table(rows: list[dict[str, Any]]) -> Iterator[Line]:
    """Two lines a check: what it is, then what it is held against and who says so."""
    from ndctl.report.lines import Line

    heads = ("check", "level", "needed", "cost", "what it says")
    cells = [(row["id"], row["level"], _needed(row), _cost(row), row["title"]) for row in rows]
    widths = [max(len(row[column]) for row in (heads, *cells)) for column in range(4)]
    hang = sum(widths) + 2 * len(widths)
    yield Line("  ".join((*map(str.ljust, heads[:4], widths), heads[4])), "bold", hang)
    for row, cell in zip(rows, cells, strict=True):
        yield Line("  ".join((*map(str.ljust, cell[:4], widths), cell[4])), "", hang)
        if row["threshold"]:
            yield Line(f"    {row['threshold']}" + (f"   [{row['source']}]" if row["source"] else ""), "dim", 4)
        if off := row["disabled"]:
            told = f"{off['reason']} (until {off['until']})"
            what = "switched off" if off["in_force"] else "asked again, this has expired"
            yield Line(f"    {what}: {told}", "yellow", 4)


def _needed(row: dict[str, Any]) -> str:
    if not row["applies"]:
        return "not asked"
    return "required" if row["required"] else "optional"


def _cost(row: dict[str, Any]) -> str:
    if row["cost_s"] is None:
        return "-"
    return f"{row['cost_s']:g} s {'a rack' if row['active'] else 'a node'}"
