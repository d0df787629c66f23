"""ndctl bootstrap: the unattended chain from an inventory to accepted racks, for one region or many side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndctl.cli.plan import Format
from ndctl.model.status import Level

if TYPE_CHECKING:
    from ndctl.model.events import Event, EventSink
    from ndctl.report.lines import Line


class Events(StrEnum):
    NONE = "none"
    JSONL = "jsonl"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("bootstrap")(bootstrap)


def bootstrap(
    inventories: Annotated[
        list[Path], typer.Argument(help="Inventory files or folders.", metavar="INVENTORY…", show_default=False)
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    level: Annotated[
        Level, typer.Option("--level", help="How deep racks are validated before they are accepted.")
    ] = Level.ACCEPTANCE,
    events: Annotated[
        Events,
        typer.Option("--events", help="jsonl: stdout is the event stream; a cluster's last line is its answer."),
    ] = Events.NONE,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
    rack_deadline: Annotated[
        str, typer.Option("--rack-deadline", help="How long the deployment of one rack is waited for.")
    ] = "90m",
    nodes_within: Annotated[
        str, typer.Option("--nodes-within", help="How long nodes are waited for until they answer SSH.")
    ] = "20m",
    fanout: Annotated[int, typer.Option("--fanout", min=1, max=512, help="Nodes asked at once.")] = 64,
    record: Annotated[
        Path | None, typer.Option("--record", help="File that keeps the validation. [default: the state directory]")
    ] = None,
) -> None:
    """Take inventories all the way: pre-flight, plan, deploy, wait, validate, acceptance record.

    Cut off anywhere, the same command goes on where it stopped. Several inventories run side by side, a process each.

    Exit status: 0 all racks as planned and accepted or degraded, else the worst of 2 an inventory is wrong, 3 not
    permitted, 4 pre-flight refused, 5 no rack deployed, 6 some, 7 a rack is rejected, 8 incomplete, 10 held by another,
    130 interrupted.
    """
    from ndctl.cli.consent import ask
    from ndctl.cli.output import emit, say, show_lines
    from ndctl.inventory.loader import load_many
    from ndctl.model.bootstrapped import bootstrapped_dict
    from ndctl.model.jsonable import dumps

    loaded = load_many(inventories)
    names = ", ".join(one.inventory.cluster for one in loaded)
    racks = sum(one.inventory.racks or 0 for one in loaded)
    say(f"bootstrap {names}: {racks} rack{'' if racks == 1 else 's'}, to {level.value} level")
    ask(f"Deploy and validate {names}?", "yes", yes=yes)
    options = {"--level": level.value, "--rack-deadline": rack_deadline, "--nodes-within": nodes_within}
    options |= {"--fanout": str(fanout)} | ({"--record": str(record)} if record else {})
    if len(loaded) == 1:
        answers: Sequence[Mapping[str, Any]] = [
            _here(loaded[0], level, rack_deadline, nodes_within, fanout, record, events)
        ]
    else:
        answers = _side_by_side([(one.inventory.cluster, one.path) for one in loaded], options, events)
    told = bootstrapped_dict(answers)
    if events is Events.NONE and output is Format.JSON:
        emit(dumps(told))
    elif events is Events.NONE:
        show_lines(_lines(answers))
    raise typer.Exit(int(told["exit_code"]))


def _here(
    loaded: Any,
    level: Level,
    rack_deadline: str,
    nodes_within: str,
    fanout: int,
    record: Path | None,
    events: Events,
) -> Mapping[str, Any]:
    from ndctl.cli.interrupts import Interrupts
    from ndctl.cli.output import say
    from ndctl.cli.rack_lines import rack_lines
    from ndctl.workflow.bootstrap import Ask, Chain
    from ndctl.workflow.budget import parse_budget

    asked = Ask(
        level=level,
        rack_deadline_s=parse_budget(rack_deadline, "--rack-deadline"),
        nodes_within_s=parse_budget(nodes_within, "--nodes-within"),
        fanout=fanout,
        record=record,
    )
    interrupts = Interrupts(say)
    _end_with_parent()
    with rack_lines() as story:
        sinks: list[EventSink] = [story] if events is Events.NONE else []

        def tell(event: Event) -> None:
            for sink in sinks:
                sink(event)

        chain = Chain(loaded, asked, on_event=tell, say=say, interruptible=interrupts.first)
        if events is Events.JSONL:
            sinks.append(_written(chain.id))
        return chain.run().as_dict()


def _end_with_parent() -> None:
    """One region of several: when whoever reads its stream was killed, it stops as at a Ctrl-C, so that the same
    command finds nobody at work. A SIGTERM that systemd sends to all processes of a unit is not counted here: the
    parent passes its own on, and two would mean to leave at once."""
    import os
    import signal
    import threading
    import time

    from ndctl.workflow.regions import PARENT

    parent = os.environ.pop(PARENT, "")
    if not parent:
        return

    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


def _written(run: str) -> EventSink:
    """Events as lines on standard output, as they happen."""
    import threading
    from datetime import UTC, datetime

    from ndctl.cli.output import emit
    from ndctl.report.json_text import event_json

    lock = threading.Lock()

    def write(event: Event) -> None:
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        with lock:
            emit(event_json(event, time, run))

    return write


def _side_by_side(
    inventories: Sequence[tuple[str, Path]], options: Mapping[str, str], events: Events
) -> Sequence[Mapping[str, Any]]:
    from ndctl.cli.output import emit
    from ndctl.cli.rack_lines import rack_lines
    from ndctl.report.event_stream import Told
    from ndctl.workflow.regions import Regions

    regions = Regions(inventories, [part for option in options.items() for part in option])
    if events is Events.JSONL:
        return regions.run(lambda line, told: emit(line))
    with rack_lines() as story:

        def show(line: str, told: Told) -> None:
            story(told.event)

        return regions.run(show)


def _lines(answers: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """One entry a cluster: how far it came, what decided, and what to do."""
    from ndctl.report.lines import Line

    width = max(len(str(one["cluster"])) for one in answers)
    for one in answers:
        reached = [end for end in one["stages"] if end["status"] != "not reached"]
        decided = next((end for end in reached if end["exit_code"]), reached[-1])
        style = "" if not one["exit_code"] else "bold red"
        name = f"{one['cluster']:<{width}}"
        yield Line(f"{name}  {decided['stage']}: {decided['message']}   exit {one['exit_code']}", style, width + 2)
        pad = " " * (width + 2)
        if one["verdicts"] and decided["stage"] != "validate":
            verdicts = ", ".join(f"{count} {verdict}" for verdict, count in one["verdicts"].items())
            yield Line(f"{pad}racks: {verdicts}", "", width + 2)
        if one["record"]:
            yield Line(f"{pad}acceptance record: {one['record']}", "", None)
        if decided["next_step"]:
            yield Line(f"{pad}next: {decided['next_step']}", "", None)
