"""The program: registers the verbs, renders NdctlError in one place, and turns results into exit codes.

A verb lives in its own file and is a plain function; it may import typer and `ndctl.model` at the top and
everything else inside the function, so that `ndctl --help` stays as fast as a bare Typer program.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from functools import cache
from typing import Annotated, NoReturn

import typer

from ndctl import __version__
from ndctl.cli.interrupts import terminate_as_interrupt
from ndctl.model.errors import ExitCode, ManyErrors, NdctlError

app = typer.Typer(
    name="ndctl",
    help="Deploy racks of Azure ND GB300 v6, and say of any rack whether it is fit for work.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Each module adds its verbs with `register(app)`. Order is the order of `--help`.
VERBS = (
    "init",
    "inventory",
    "render",
    "preflight",
    "roles",
    "plan",
    "deploy",
    "scale",
    "status",
    "drift",
    "nodes",
    "validate",
    "exec",
    "diagnose",
    "repair",
    "report-node",
    "checks",
    "explain",
    "judge",
    "runs",
    "schema",
    "destroy",
    "bootstrap",
    "first-contact",
    "sim",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ndctl {__version__}")
        raise typer.Exit


@app.callback()
def _globals(
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text, no colours (also: NO_COLOR=1).")] = False,
    verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, help="More of the story on stderr.")] = 0,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if no_color:
        os.environ["NO_COLOR"] = "1"
    os.environ["NDCTL_VERBOSE"] = str(verbose)


def _keep_plain(arguments: list[str]) -> None:
    """`--help` is answered before any other option is looked at, so what it is to look like is settled here.

    Rich leaves out colours by itself where NO_COLOR is set, but not bold and dim; Typer reads this variable when it
    first prints a help.
    """
    if "--no-color" in itertools.takewhile(lambda one: one.startswith("-"), arguments):
        os.environ["NO_COLOR"] = "1"
    if os.environ.get("NO_COLOR"):
        os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"


def show_error(error: NdctlError) -> None:
    """The error on stderr: place, message, source line with a caret, hint."""
    from ndctl.cli.output import tell
    from ndctl.cli.show_error import render_error

    for one in error.errors if isinstance(error, ManyErrors) else [error]:
        tell(sys.stderr, render_error(one))


@cache
def _register_verbs() -> None:
    """Once for a process: Typer would keep, and go through, every verb as often as it was added."""
    for verb in VERBS:
        importlib.import_module(f"ndctl.cli.{verb.replace('-', '_')}").register(app)


def run(arguments: list[str] | None = None) -> None:
    """Entry point of the `ndctl` script; never returns. What stops it, Ctrl-C or SIGTERM, ends it with 130."""
    with terminate_as_interrupt():
        _run(arguments)


def _run(arguments: list[str] | None) -> NoReturn:
    _keep_plain(sys.argv[1:] if arguments is None else arguments)
    _register_verbs()
    try:
        code = app(args=arguments, standalone_mode=False)
    except NdctlError as error:
        show_error(error)
        sys.exit(int(error.exit_code))
    except typer.Abort:
        sys.exit(int(ExitCode.INTERRUPTED))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(int(ExitCode.INTERRUPTED))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        unwritten = _unwritten() if isinstance(error, OSError) else None
        if unwritten is None:
            sys.exit(_unexpected(error))
        show_error(unwritten)
        sys.exit(int(unwritten.exit_code))
    sys.exit(int(code) if isinstance(code, int) else 0)


def _unwritten() -> NdctlError | None:
    """A help is printed by Typer: what standard output did not take of it is still to be written, and fails again."""
    from ndctl.cli.output import emit

    try:
        emit("")
    except NdctlError as error:
        return error
    return None


def _unexpected(error: Exception) -> int:
    """Usage errors are Typer's to print; anything else is a fault of ndctl and says where to look."""
    # Typer brings a Click of its own along or uses the installed one, by version: both know how to show themselves.
    show = getattr(error, "show", None)
    if callable(show):
        show()
        return int(ExitCode.USAGE)
    ended = getattr(error, "exit_code", None)
    if isinstance(ended, int):
        return ended
    if int(os.environ.get("NDCTL_VERBOSE", "0")) > 0:
        import traceback

        traceback.print_exception(error)
    from ndctl.cli.output import tell

    tell(sys.stderr, f"internal error: {type(error).__name__}: {error}\nhint: run again with -v and report it\n")
    return int(ExitCode.INTERNAL)
