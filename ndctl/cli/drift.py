"""ndctl drift: what in Azure is not as the inventory renders it."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.plan import Format
from ndctl.model.errors import NdctlError

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.render.rendered import Rendered
    from ndctl.workflow.drift import DriftResult, Item


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("drift")(drift)


def drift(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit status 9 when something drifted.")
    ] = False,
) -> None:
    """Read every resource of the cluster and compare it with the rendered one, property by property. Changes nothing.

    `drift: {ignore: [{path, reason, until}]}` in the inventory names what may differ; -v lists it too.
    Exit status: 0, 9 drift (with --detailed-exitcode), 8 a resource could not be read, 3 not signed in or not
    permitted, 4 Azure cannot be reached.
    """
    from ndctl.azure.clients import connect
    from ndctl.cli.output import emit, say, verbosity
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.drift import find_drift

    loaded = load(inventory)
    rendered = _render(loaded)
    clients = connect(loaded)
    try:
        result = find_drift(loaded, rendered, clients)
    finally:
        clients.close()
    for note in result.notes:
        say(f"note: {note}")
    if output is Format.JSON:
        emit(dumps(result.as_dict(detailed_exitcode)))
    else:
        emit("\n".join(drift_lines(result, verbose=verbosity() > 0)))
    raise typer.Exit(int(result.exit_code(detailed_exitcode)))


def _render(loaded: Loaded) -> Rendered:
    """As deploy would; without a key at hand everything but the key is compared."""
    from ndctl.render import render
    from ndctl.workflow.prepare import render_to_deploy

    try:
        return render_to_deploy(loaded)
    except NdctlError as error:
        if error.code != "deploy.no-public-key":
            raise
        return render(loaded)


def drift_lines(result: DriftResult, *, verbose: bool) -> list[str]:
    """The answer first, then each difference once, racks that differ alike together."""
    if not result.group_exists:
        return [f"{result.cluster}: nothing to compare, resource group {result.resource_group} does not exist"]
    counts = f"{result.compared} resources compared"
    found = f"{len(result.drift)} differences" if result.drift else "no drift"
    if len(result.drift) == 1:
        found = "1 difference"
    more = [f"{len(result.ignored)} ignored"] if result.ignored else []
    more += [f"{len(result.not_told)} not told by Azure"] if result.not_told else []
    more += [f"{len(result.unread)} not read"] if result.unread else []
    lines = [f"{result.cluster}  {counts}: {' · '.join([found, *more])}"]
    lines += _items(result.drift)
    for name, fault in result.unread:
        lines.append(f"  {name}  could not be read: {fault.summary}")
        lines.append(f"    next: {fault.next_step}")
    if verbose:
        lines += [f"  ignored: {row.strip()}" for row in _items(result.ignored)]
        lines += [f"  not told: {row.strip()}" for row in _items(result.not_told)]
    if result.drift:
        lines.append(f"next: ndctl plan {result.inventory}   (what deploying would put right, and how)")
    return lines


def _items(items: tuple[Item, ...]) -> list[str]:
    """Equal differences of several racks are one line: `rack[01-03]  virtualMachineScaleSets  tags.owner …`."""
    from ndctl.report.fold import node_set

    def text(item: Item) -> str:
        kind = item.resource.partition("/")[0] if item.rack else item.resource
        return f"{kind}  {_words(item)}"

    ordered = sorted(items, key=lambda item: (text(item), item.rack))
    lines = []
    for words, group in groupby(ordered, key=text):
        racks = node_set(sorted({item.rack for item in group if item.rack}))
        lines.append(f"  {racks or 'foundation'}  {words}")
    return sorted(lines)


def _words(item: Item) -> str:
    if not item.path:
        words = "is missing" if item.sort.value == "gone" else "is in Azure and not in the inventory"
    elif item.sort.value == "added":
        words = f"{item.path}: {_short(item.live)} was added"
    elif item.sort.value == "gone":
        words = f"{item.path}: {_short(item.wanted)} was taken away"
    elif item.sort.value == "not told":
        words = f"{item.path}"
    else:
        words = f"{item.path}: {_short(item.live)}, rendered {_short(item.wanted)}"
    if item.ignored:
        return f"{words}   ({item.ignored})"
    effect = item.effect.value if item.effect and item.sort.value == "differs" else ""
    return f"{words}   to put right: {effect}" if effect else words


def _short(value: object) -> str:
    from ndctl.model.jsonable import dumps

    text = value if isinstance(value, str) else dumps(value, indent=None)
    return text if len(text) <= 60 else text[:57] + "…"
