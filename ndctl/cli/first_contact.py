"""ndctl first-contact: what no document settles, asked of real racks; answers are kept and used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.plan import Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndctl.model.first_contact import FactNow
    from ndctl.report.lines import Line


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("first-contact")(first_contact)


def first_contact(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            help="Keep an answer, ID=VALUE; ID= takes it back. Can be repeated.",
            metavar="ID=VALUE",
            show_default=False,
        ),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask/--no-ask", help="Ask nodes and Azure; they are only read.")] = True,
    fanout: Annotated[int, typer.Option("--fanout", min=1, max=512, help="Nodes asked at once.")] = 64,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
) -> None:
    """Walk the facts about these racks that no document settles: what is gone by, what racks tell, what was answered.

    What racks confirm is kept by itself; what differs is kept only by --answer. Answers hold for this cluster.

    Exit status: 0, 2 usage or inventory, 3 not signed in or not permitted, 4 Azure cannot be asked, 8 nodes stand and
    none of them answered. What is known is printed all the same.
    """  # fmt: skip
    from ndctl.cli.output import emit, note, show_lines
    from ndctl.inventory.loader import load
    from ndctl.model.first_contact import first_contact_dict
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.first_contact import Kept
    from ndctl.workflow.first_contact import first_contact as walk

    loaded = load(inventory)
    if answer:
        Kept(loaded).answer(answer)
        loaded = load(inventory)
    found = walk(loaded, Kept(loaded), ask=ask, fanout=fanout, on_event=note)
    if output is Format.JSON:
        name, profile = loaded.inventory.cluster, loaded.profile.name
        emit(dumps(first_contact_dict(name, str(inventory), profile, found.nodes, found.answered, found.facts)))
    else:
        show_lines(_lines(found.facts))
    if found.refused is not None:
        raise found.refused
    raise typer.Exit(int(found.exit_code))


def _lines(facts: Sequence[FactNow]) -> Iterator[Line]:
    from ndctl.model.first_contact import Standing
    from ndctl.report.lines import Line

    styles = {Standing.DIFFERS: "yellow", Standing.OPEN: "bold"}
    for one in facts:
        yield Line(f"{one.standing.value.upper():<10} {one.id}: {one.question}", styles.get(one.standing, ""), 13)
        rows = [("goes by", one.in_force + (f"   ({one.answered})" if one.answered else ""))]
        if one.found.told or one.standing is not Standing.ANSWERED:
            head = "racks say" if one.found.told else "racks"
            rows.append((head, "; ".join(part for part in (one.found.told, one.found.why) if part)))
        rows += [("why", one.why), ("doubt", one.source)] if one.standing in styles else []
        rows.append(("used", f"in place of {one.sets} of the profile" if one.sets else f"no: {one.unwired}"))
        if one.next_step:
            rows.append(("next", one.next_step))
        for head, text in rows:
            yield Line(f"           {head:<10} {text}", "", 22)
    counts = ", ".join(f"{sum(f.standing is s for f in facts)} {s.value}" for s in Standing)
    yield Line(counts, "", 0)
