"""ndctl report-node: tell Azure that a host is unhealthy, by a finding that still holds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndctl.cli.plan import Format
from ndctl.model.errors import ExitCode

if TYPE_CHECKING:
    from ndctl.workflow.report_node import Report


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("report-node")(report_node)


def report_node(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    node: Annotated[str, typer.Argument(help="A node, e.g. rack07-n11.", metavar="NODE", show_default=False)],
    finding: Annotated[str, typer.Option("--finding", help="A check of the last run. [default: its worst]")] = "",
    category: Annotated[str, typer.Option("--category", help="Azure's category instead of the finding's own.")] = "",
    send: Annotated[bool, typer.Option("--send", help="Send it; without it nothing leaves this machine.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow Azure's insights to their end.")] = False,
    wait_s: Annotated[float, typer.Option("--wait-s", min=0.0, help="Seconds that --wait waits at most.")] = 3600.0,
    record: Annotated[
        Path | None, typer.Option("--record", help="File that keeps the runs. [default: the state directory]")
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TABLE,
) -> None:
    """Make the Guest Health Report of a node from the last run that asked it; print what would be sent, or --send it.

    A host is reported once per category. Refused when the VM was rebooted, repaired or replaced since the run.
    Exit status: 0 printed, sent, or reported before, 8 --wait saw no end, 4 refused: nothing to report, too old,
    identifiers missing, or not by Azure, 2 usage, 3 not signed in or not permitted.
    """
    import time
    from contextlib import closing

    from ndctl.azure.clients import connect
    from ndctl.cli.output import emit, say
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps
    from ndctl.workflow.report_node import follow, make_report
    from ndctl.workflow.report_node import send as put

    loaded = load(inventory)
    with closing(connect(loaded)) as clients:
        report = make_report(loaded, node, clients, check=finding, category=category, record=record)
        if report.unverified:
            say(f"mind: {report.unverified}")
        if send:
            report = put(loaded, report, clients)
        if wait and (report.sent or report.already):
            report = follow(report, clients, wait_s=wait_s, clock=time.monotonic, sleep=time.sleep)
    code = ExitCode.INCOMPLETE if wait and (report.sent or report.already) and not report.ended else ExitCode.OK
    if output is Format.JSON:
        emit(dumps(as_dict(report, loaded.inventory.cluster, int(code))))
    elif send:
        emit("\n".join(lines(report)))
    else:
        emit(dumps(report.body))
        chosen = [f"--finding {finding}"] if finding else []
        chosen += [f"--category {category}"] if category else []
        chosen += [f"--record {shlex.quote(str(record))}"] if record else []
        again = ["ndctl report-node", shlex.quote(str(inventory)), node, *chosen, "--send"]
        if report.already:
            say(f"not sent, and --send would not either: host {report.host} was reported as this before")
            say(f"what came of report {report.already}: {' '.join(again)} --wait")
        else:
            say(f"not sent. To send this: {' '.join(again)}")
    raise typer.Exit(int(code))


def lines(report: Report) -> list[str]:
    fate = "sent" if report.sent else f"not sent: this host was reported before as {report.already}"
    head = [f"{report.node.name}  {report.category}  host {report.host}  {fate}"]
    head += [f"  report    {report.already or report.name}", f"  finding   {report.finding.check} of run {report.run}"]
    return head + [
        f"  {one.time}  {one.code} ({one.status}){'  last word' if one.last else ''}" for one in report.insights
    ]


def as_dict(report: Report, cluster: str, exit_code: int) -> dict[str, Any]:
    """The published form."""
    from dataclasses import asdict

    from ndctl.workflow.report_node import REPORT_SCHEMA

    return {
        "schema": REPORT_SCHEMA,
        "cluster": cluster,
        "node": report.node.name,
        "run": report.run,
        "finding": report.finding.check,
        "category": report.category,
        "physical_host": report.host,
        "name": report.already or report.name,
        "body": report.body,
        "sent": report.sent,
        "already_reported": bool(report.already),
        "unverified": report.unverified,
        "insights": [asdict(one) for one in report.insights],
        "exit_code": exit_code,
    }
