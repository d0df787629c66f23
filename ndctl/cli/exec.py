"""ndctl exec: one shell command on chosen nodes, equal output shown once."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.selecting import ExcludeOption, NodesOption, PickOption, RackOption
from ndctl.model.errors import ExitCode, NdctlError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ndctl.inventory.loader import Loaded
    from ndctl.model.events import Event
    from ndctl.model.execution import Execution
    from ndctl.workflow.execute import Order
    from ndctl.workflow.select import Selected


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("exec")(execute)


def execute(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="What the nodes' sh runs, after --; several words are joined with blanks, as ssh does.",
            metavar="-- CMD",
            show_default=False,
        ),
    ] = None,
    rack: RackOption = None,
    nodes: NodesOption = None,
    exclude: ExcludeOption = None,
    pick: PickOption = None,
    fold: Annotated[
        bool,
        typer.Option(
            "--fold",
            help="Output that differs only in names, addresses, MACs, serials, GUIDs or UUIDs is equal; one sample "
            "is shown, with placeholders.",
        ),
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="What most nodes printed, and how each other group differs from it.")
    ] = False,
    root: Annotated[bool, typer.Option("--root", help="Run it as root, by sudo without a password.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, max=1700, metavar="SECONDS", help="Time for the command on a node.")
    ] = 60.0,
    fanout: Annotated[int, typer.Option("--fanout", min=1, max=512, help="Nodes asked at once.")] = 64,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TEXT,
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Record that @failed is read from. [default: the state directory]"),
    ] = None,
) -> None:
    """Run a shell command on nodes and show equal output once.

    It runs what it is given on every node that is chosen, all of them by default, and asks nothing: how many they are
    is said first. `protect` in the inventory is no bar. At most 1 MB of each stream of a node is kept, less beyond 256
    nodes. Nothing is recorded. Ctrl-C: no further node is begun, those at work have 5 s; once more leaves at once. A
    command that is cut off may run on, on its node, until its deadline.

    Exit status: 0 the command ended with 0 on every node, 7 it ended otherwise somewhere, 8 a node gave no answer
    (unreachable, not there, no end in time), 2 usage or no node left, 130 interrupted; of several the first of 130, 7,
    8. The nodes' own exit codes are in -o json.
    """
    from ndctl.cli.folded_failures import folded
    from ndctl.cli.output import say
    from ndctl.inventory.loader import load
    from ndctl.model.events import Event
    from ndctl.report.plain import one_line
    from ndctl.workflow.execute import Order, learn_keys, refuse_no_command
    from ndctl.workflow.node_groups import recorded_runs
    from ndctl.workflow.nodes import discover
    from ndctl.workflow.select import nothing_selected, select, selection_of

    if diff and output is Format.JSON:
        raise NdctlError(
            "exec.usage", "--diff: not with -o json, which holds every node's output", exit_code=ExitCode.USAGE
        )
    text = " ".join(command or ())
    refuse_no_command(text)
    selection = selection_of(rack, nodes, exclude, pick)
    loaded = load(inventory)
    selected = select(discover(loaded), selection, last=recorded_runs(record))
    if not selected.cluster.racks:
        raise nothing_selected(selection, selected.notes)
    for line in (*selected.notes, selected.line):
        say(f"{selected.cluster.name}  {line}")
    problems = sorted(learn_keys(loaded, selected.cluster).items())
    for told in folded(Event("note", "failed", node=node, message=problem) for node, problem in problems):
        say(one_line(f"{told.node}  host key not learned: {told.message}"))
    done = _run(loaded, selected, Order(text, timeout, fanout, root, own_names=fold))
    _print(done, output, fold, diff)
    raise typer.Exit(int(done.exit_code))


def _run(loaded: Loaded, selected: Selected, order: Order) -> Execution:
    """A line for each rack while it lasts on a terminal; Ctrl-C ends it early."""
    from ndctl.cli.interrupts import Interrupts
    from ndctl.cli.output import note, say
    from ndctl.cli.progress import progress
    from ndctl.model.events import ignore_events
    from ndctl.workflow.execute import execute as run

    interrupts = Interrupts(say)

    def stoppable(stop: Callable[[], None]) -> AbstractContextManager[None]:
        return interrupts.first(stop, "no further node is begun, those at work have 5 s")

    with progress() if sys.stderr is not None and sys.stderr.isatty() else nullcontext(ignore_events) as sink:

        def tell(event: Event) -> None:
            (note if event.aside else sink)(event)

        done = run(loaded, selected, order, on_event=tell, stoppable=stoppable)
    return replace(done, interrupted=True) if interrupts.happened else done


def _print(done: Execution, output: Format, fold: bool, diff: bool) -> None:
    from ndctl.cli.output import emit, say, show_raw
    from ndctl.report.execution import blocks, execution_json, summary

    if output is Format.JSON:
        emit(execution_json(done, fold=fold))
    else:
        for block in blocks(done, fold=fold, diff=diff):
            emit(block.header)
            show_raw(block.body)
    say(summary(done))
