"""ndctl sim: the embedded region, an Azure of one's own on this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ndctl.model.errors import ExitCode, NdctlError

DirOption = Annotated[Path, typer.Option("--dir", help="Where the region keeps everything.")]
DEFAULT = Path(".ndctl/sim")


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


sim = typer.Typer(
    help="The embedded region: Azure Resource Manager and nodes over SSH, on this machine.", no_args_is_help=True
)
fault = typer.Typer(help="Plant faults in the region, list them, heal them.", no_args_is_help=True)


def _kinds(incomplete: str) -> list[tuple[str, str]]:
    """For the shell's completion: kinds of faults, and what each is."""
    from ndctl.sim.fault_kinds import CATALOGUE

    return [(one.name, one.summary) for one in CATALOGUE.values() if one.name.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    if not sim.registered_commands:
        sim.command("up")(up)
        sim.command("status")(status)
        sim.command("down")(down)
        fault.command("add")(add)
        fault.command("list")(listed)
        fault.command("clear")(clear)
        fault.command("kinds")(kinds)
        sim.add_typer(fault, name="fault")
    app.add_typer(sim, name="sim")


def up(
    directory: DirOption = DEFAULT,
    port: Annotated[int, typer.Option(min=0, max=65535, help="HTTPS port on 127.0.0.1; 0: a free one.")] = 8443,
    ssh_port: Annotated[int, typer.Option(min=0, max=65535, help="SSH port of every node; 0: a free one.")] = 2222,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay until Ctrl-C instead of returning.")] = False,
) -> None:
    """Start the region and return when it answers."""
    from ndctl.sim.control import prepare, start
    from ndctl.sim.state import SimDirectory

    place = SimDirectory(directory.absolute())
    settings = {"port": port, "ssh_port": ssh_port}
    if foreground:
        prepare(place, settings)
        from ndctl.sim.server import main

        typer.echo(f"region in {directory}, until Ctrl-C; inventory: {directory / 'inventory.yaml'}", err=True)
        main(place.path)
        return
    running = start(place, settings)
    typer.echo(f"region is up  {running.endpoint}  nodes on SSH port {running.ssh_port}  pid {running.pid}")
    typer.echo(f"directory     {directory}")
    typer.echo(f"next: ndctl plan {directory / 'inventory.yaml'}")


def status(
    directory: DirOption = DEFAULT,
    output: Annotated[Format, typer.Option("-o", "--output", help="How it is printed.")] = Format.TABLE,
) -> None:
    """Say whether a region runs, where, and what is in it."""
    from ndctl.sim.state import SimDirectory
    from ndctl.sim.summary import summary

    found = summary(SimDirectory(directory.absolute()))
    if output is Format.JSON:
        from ndctl.model.jsonable import dumps

        typer.echo(dumps(found))
        return
    typer.echo(f"region     {found['state']}" + (f"  {found['endpoint']}" if found["endpoint"] else ""))
    typer.echo(f"directory  {found['directory']}")
    if found["state"] == "running":
        typer.echo(f"process    pid {found['pid']}, nodes on SSH port {found['ssh_port']}")
    for row in found["racks"]:
        typer.echo(f"rack       {row['cluster']} {row['rack']}  {row['vms']} VMs")
    if found["machines"]:
        typer.echo(f"machines   {found['machines']} without GPUs")
    typer.echo(f"faults     {len(found['faults'])} planted")
    typer.echo(f"next: {found['next']}")


def down(directory: DirOption = DEFAULT) -> None:
    """End the region and take away its directory, with everything in it."""
    from ndctl.sim.control import end
    from ndctl.sim.state import SimDirectory

    lived = end(SimDirectory(directory.absolute()))
    typer.echo(f"region is down, {directory} is gone" if lived else f"no process was running; {directory} is gone")


def add(
    kind: Annotated[
        str, typer.Argument(help="Kind of fault; `ndctl sim fault kinds` lists them.", autocompletion=_kinds)
    ],
    directory: DirOption = DEFAULT,
    node: Annotated[str | None, typer.Option(help="Node name, e.g. rack01-n03.")] = None,
    rack: Annotated[int | None, typer.Option(help="Rack number.")] = None,
    gpu: Annotated[int | None, typer.Option(help="GPU index on the node, from 0.")] = None,
    link: Annotated[int | None, typer.Option(help="NVLink index of the GPU.")] = None,
    port: Annotated[str | None, typer.Option(help="InfiniBand device, e.g. mlx5_ib1.")] = None,
    peer: Annotated[str | None, typer.Option(help="The other node of a pair.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Cluster, when several have racks of that number.")] = None,
    more: Annotated[
        list[str] | None, typer.Option("--set", help="Any other parameter of the kind, NAME=VALUE; may be repeated.")
    ] = None,
) -> None:
    """Plant a fault; a running region shows it at once."""
    where: dict[str, Any] = {
        "node": node, "rack": rack, "gpu": gpu, "link": link, "port": port, "peer": peer, "cluster": cluster
    }  # fmt: skip
    for text in more or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise NdctlError("sim.fault-parameters", f"--set {text!r} is not NAME=VALUE", exit_code=ExitCode.USAGE)
        where[name.replace("-", "_")] = value
    book = _book(directory)
    try:
        planted = book.add(kind, **where)
    except ValueError as error:
        raise NdctlError("sim.fault-parameters", f"{kind}: {error}", exit_code=ExitCode.USAGE) from None
    typer.echo(f"fault {planted.id}  {planted.kind}  {planted.blames}")


def listed(
    directory: DirOption = DEFAULT,
    output: Annotated[Format, typer.Option("-o", "--output", help="How it is printed.")] = Format.TABLE,
) -> None:
    """List the planted faults."""
    found = _book(directory).list()
    if output is Format.JSON:
        from ndctl.model.jsonable import dumps

        rows = [{"id": one.id, "kind": one.kind, "where": one.where, "blames": one.blames} for one in found]
        typer.echo(dumps({"schema": "ndctl.sim-faults/1", "faults": rows}))
        return
    if not found:
        typer.echo("no fault is planted")
    for one in found:
        told = ", ".join(f"{key} {value}" for key, value in one.where.items())
        typer.echo(f"{one.id:>3}  {one.kind:<20} {one.blames:<30} {told}".rstrip())


def clear(
    kind: Annotated[str | None, typer.Argument(help="Only this kind.", autocompletion=_kinds)] = None,
    directory: DirOption = DEFAULT,
    number: Annotated[int | None, typer.Option("--id", help="Only the fault with this number.")] = None,
) -> None:
    """Heal planted faults: all of them, one kind, or one by number."""
    healed = _book(directory).clear(kind, number)
    typer.echo(f"{healed} healed")


def kinds() -> None:
    """List the kinds of faults, their parameters and what an expert would find."""
    from ndctl.sim.faults import CATALOGUE

    for one in CATALOGUE.values():
        typer.echo(f"{one.name}: {one.summary}")
        for name, text in one.parameters.items():
            default = one.defaults.get(name)
            mark = "required" if name in one.required else f"default {default}" if default is not None else "optional"
            typer.echo(f"    {name:<12} {text} ({mark})")
        typer.echo(f"    finds        {one.finds}")


def _book(directory: Path) -> Any:
    from ndctl.sim.faults import FaultBook
    from ndctl.sim.state import SimDirectory

    place = SimDirectory(directory.absolute())
    place.need()
    return FaultBook(place.file("faults.json"))
