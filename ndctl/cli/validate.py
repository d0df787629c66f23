"""ndctl validate: ask the racks, judge them, keep the record, print the answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.selecting import ExcludeOption, NodesOption, PickOption, RackOption
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.status import Group, Level

if TYPE_CHECKING:
    from ndctl.model.findings import Run
    from ndctl.workflow.engines import Engine


class EngineName(StrEnum):
    LOCAL = "local"
    DASK = "dask"


class RelayBy(StrEnum):
    RACK = "rack"


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    JUNIT = "junit"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("validate")(validate)


def parse_groups(text: str | None) -> frozenset[Group]:
    """ "nvlink,gpu" -> groups; None -> all. Raises NdctlError exit 2."""
    if text is None:
        return frozenset(Group)
    known = {group.value: group for group in Group}
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in wanted if part not in known]
    if unknown or not wanted:
        raise NdctlError(
            "validate.only",
            f"unknown group {', '.join(map(repr, unknown)) or repr(text)}",
            hint=f"--only takes: {', '.join(known)}",
            exit_code=ExitCode.USAGE,
        )
    return frozenset(known[part] for part in wanted)


def validate(
    context: typer.Context,
    inventories: Annotated[
        list[Path] | None, typer.Argument(help="Inventory files, or folders of them.", show_default=False)
    ] = None,
    rack: RackOption = None,
    nodes: NodesOption = None,
    exclude: ExcludeOption = None,
    pick: PickOption = None,
    only: Annotated[
        str | None, typer.Option("--only", help="Only these groups: nvlink, infiniband, nccl, gpu, host.")
    ] = None,
    level: Annotated[
        Level, typer.Option("--level", help="quick: passive, safe beside jobs. standard: and short active tests.")
    ] = Level.STANDARD,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
    force: Annotated[bool, typer.Option("--force", help="Run active tests on nodes that are in use, too.")] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="Time for each rack's active tests, e.g. 15m: what has found most per minute first; the rest is left "
            "out, and said.",
        ),
    ] = None,
    max_nodes_under_test: Annotated[
        int | None,
        typer.Option("--max-nodes-under-test", min=1, help="Nodes of the whole run under active test at one time."),
    ] = None,
    fanout: Annotated[int, typer.Option("--fanout", min=1, max=512, help="Nodes asked at once.")] = 64,
    record: Annotated[
        Path | None, typer.Option("--record", help="File that keeps the run. [default: the state directory]")
    ] = None,
    relearn_host_keys: Annotated[
        bool, typer.Option("--relearn-host-keys", help="Learn SSH host keys again through Azure before connecting.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the newest run of these inventories, which was cut off: finished nodes are not asked "
            "again, unless they booted since.",
        ),
    ] = False,
    resume_run: Annotated[
        str,
        typer.Option(
            "--resume-run", metavar="RUN", help="Go on with this run instead of the newest one.", show_default=False
        ),
    ] = "",
    engine: Annotated[
        EngineName,
        typer.Option("--engine", help="Where racks are worked on: this process, or the workers of a Dask cluster."),
    ] = EngineName.LOCAL,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", metavar="URL", help="Dask scheduler, e.g. tls://10.0.0.4:8786.", show_default=False
        ),
    ] = None,
    relay: Annotated[
        RelayBy | None,
        typer.Option(
            "--relay",
            help="Collect through one node of each rack, its head, which asks the others by ssh: for large fleets. "
            "Your key stays here. For the time of the run the head has a directory on tmpfs; above quick level also a "
            "key of its own there, which the rack's other nodes accept by one marked line in authorized_keys.",
            show_default=False,
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            metavar="RUN",
            help="Judge a recorded run anew, with today's checks and profile; nothing is connected to or written.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Ask racks how they are and judge them.

    Exit status: 0 every rack accepted or degraded, 7 a rack is rejected, 8 a rack is incomplete
    (nodes missing, unreachable or unknown, or a required check skipped).
    """
    from ndctl.cli import large_runs
    from ndctl.cli.rack_lines import rack_lines
    from ndctl.workflow.budget import parse_budget
    from ndctl.workflow.select import selection_of
    from ndctl.workflow.validate import Request, validate_inventories

    if replay is not None:
        _refuse_beside_replay(context)
        run = _made_again(replay, record)
        _print(run, output)
        raise typer.Exit(int(run.exit_code))
    if not inventories:
        raise NdctlError(
            "validate.usage",
            "INVENTORIES are needed",
            hint="ndctl init NAME writes one to start from; --replay RUN judges a recorded run anew",
            exit_code=ExitCode.USAGE,
        )
    request = Request(
        paths=tuple(inventories),
        selection=selection_of(rack, nodes, exclude, pick),
        groups=parse_groups(only),
        level=level,
        force=force,
        fanout=fanout,
        record=record,
        relearn_host_keys=relearn_host_keys,
        max_nodes_under_test=max_nodes_under_test,
        budget_s=parse_budget(budget) if budget is not None else None,
        resume=resume,
        resume_run=resume_run,
        relay=relay is not None,
    )
    if relay is not None and engine is EngineName.DASK:
        raise NdctlError(
            "validate.usage",
            "--relay and --engine dask: one or the other",
            hint="--relay spares this machine, --engine dask spreads the racks over several",
            exit_code=ExitCode.USAGE,
        )
    large_runs.prepare()
    with open_engine(engine, scheduler) as where, rack_lines() as sink:
        run = validate_inventories(request, on_event=sink, engine=where)
    _print(run, output)
    raise typer.Exit(int(run.exit_code))


@contextmanager
def open_engine(name: EngineName, scheduler: str | None) -> Iterator[Engine]:
    """The engine of that name. Raises NdctlError exit 2."""
    if (name is EngineName.DASK) != (scheduler is not None):
        raise NdctlError(
            "validate.usage",
            "--engine dask and --scheduler URL go together",
            hint="ndctl validate INVENTORY --engine dask --scheduler tls://HOST:8786",
            exit_code=ExitCode.USAGE,
        )
    if scheduler is None:
        from ndctl.workflow.engines import LocalEngine

        yield LocalEngine()
        return
    from ndctl.workflow.dask_engine import DaskEngine

    with DaskEngine(scheduler) as engine:
        yield engine


def _print(run: Run, output: Format) -> None:
    from ndctl.cli.output import emit, show_run
    from ndctl.report.json_text import run_json
    from ndctl.report.junit import run_junit

    if output is Format.JSON:
        emit(run_json(run))
    elif output is Format.JUNIT:
        emit(run_junit(run))
    else:
        show_run(run)


def _made_again(wanted: str, record: Path | None) -> Run:
    """The run as it is judged today; what differs from the recorded one is told on stderr."""
    from ndctl.record.store import Store
    from ndctl.workflow.replay import kit_from, run_again

    with Store(record, create=False) as store:
        kit = kit_from(store, wanted)
        run = run_again(kit)
    tell_differences(kit.recorded, run)
    return run


def tell_differences(recorded: Run | None, again: Run) -> None:
    from ndctl.cli.output import say
    from ndctl.report.plain import one_line
    from ndctl.workflow.differences import differences

    if recorded is None:
        say(f"run {again.id} was never judged: it was cut off, or is being made right now")
        return
    told = differences(recorded, again)
    for line in told:
        say(f"differs: {one_line(line)}")
    if not told:
        say(f"run {again.id}: as recorded")


def _refuse_beside_replay(context: typer.Context) -> None:
    """What was asked and how is the recorded run's; only where it is and how it is printed can be told."""
    given = [
        name
        for name in context.params
        if name not in ("replay", "record", "output")
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        names = ", ".join(name if name == "inventories" else f"--{name.replace('_', '-')}" for name in given)
        raise NdctlError(
            "validate.usage",
            f"{names}: not together with --replay, which asks what the recorded run asked",
            hint="beside --replay RUN: --record FILE, -o FORMAT",
            exit_code=ExitCode.USAGE,
        )
