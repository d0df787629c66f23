"""ndctl judge: a pasted tool output, judged with no cluster."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.status import Status


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


EXIT_OF = {
    Status.PASS: ExitCode.OK,
    Status.WARN: ExitCode.OK,
    Status.FAIL: ExitCode.REJECTED,
    Status.UNKNOWN: ExitCode.INCOMPLETE,
}


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("judge")(judge)


def _tools(incomplete: str) -> list[str]:
    """For the shell's completion."""
    from ndctl.checks.judge import AUTO, tools

    return [name for name in (AUTO, *tools()) if name.startswith(incomplete.lower().replace("_", "-"))]


def judge(
    tool: Annotated[
        str | None,
        typer.Argument(
            help="Whose output it is, or auto. --list shows the names.", metavar="TOOL", autocompletion=_tools
        ),
    ] = None,
    file: Annotated[str | None, typer.Argument(help="The output, in a file; - reads stdin.", metavar="FILE")] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="Hold it against this hardware too, e.g. gb300.")
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="How the answer is printed.")] = Format.TEXT,
    list_tools: Annotated[bool, typer.Option("--list", help="List the tools whose output can be judged.")] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            metavar="DIR",
            help="Judge racks from a folder: one that `ndctl report RUN --bundle DIR` wrote, or one with a folder for "
            "each node and in it a text for each command (nvidia-smi-xml.txt), then with --profile.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Judge a pasted tool output with no cluster: facts, findings, status. Or a bundle of whole racks.

    Exit status: 0 pass or warn, 7 a fault is shown, 8 there is no usable result in the text. Of a bundle: 0 every rack
    accepted or degraded, 7 a rack is rejected, 8 a rack is incomplete.
    """
    if bundle is not None:
        if tool is not None or file is not None or list_tools:
            raise NdctlError(
                "judge.usage",
                "--bundle takes no TOOL and FILE",
                hint="ndctl judge --bundle DIR [--profile NAME]",
                exit_code=ExitCode.USAGE,
            )
        raise typer.Exit(_judge_bundle(bundle, profile, output))
    from ndctl.checks.judge import find, judge_bytes, judges
    from ndctl.cli.output import emit, show_judgement

    if list_tools:
        width = max(map(len, judges()), default=0)
        emit("\n".join(f"{name:<{width}}  {one.title}" for name, one in judges().items()))
        return
    if tool is None or file is None:
        raise NdctlError(
            "judge.usage",
            "TOOL and FILE are needed",
            hint="ndctl judge nccl-tests log.txt, or: ndctl judge auto - < log.txt",
            exit_code=ExitCode.USAGE,
        )
    if tool.strip().lower() != "auto":
        find(tool)  # a mistyped name is told before stdin is waited for
    wanted = None
    if profile is not None:
        from ndctl.profiles import load

        wanted = load(profile)
    judgement = judge_bytes(tool, read(file), wanted)
    if output is Format.JSON:
        from ndctl.report.json_text import judgement_json

        emit(judgement_json(judgement))
    else:
        show_judgement(judgement)
    raise typer.Exit(int(EXIT_OF[judgement.status]))


def _judge_bundle(folder: Path, profile: str | None, output: Format) -> int:
    from ndctl.cli.bundles import judged
    from ndctl.cli.output import emit, show_run
    from ndctl.report.json_text import run_json

    run, code = judged(folder, profile)
    if output is Format.JSON:
        emit(run_json(run))
    else:
        show_run(run)
    return code


def read(file: str) -> bytes:
    """The file's bytes, or stdin's for `-`; never much more than is judged. Raises NdctlError (exit 2)."""
    try:
        if file == "-":
            return _bounded(sys.stdin.buffer)
        with open(file, "rb") as stream:
            return _bounded(stream)
    except OSError as error:
        raise NdctlError(
            "judge.file",
            f"cannot read {file}: {error.strerror or error}",
            hint="give a file, or - to read stdin",
            exit_code=ExitCode.USAGE,
        ) from error


def _bounded(stream: BinaryIO) -> bytes:
    """Up to one byte more than the limit, so that the judge sees that there was more."""
    from ndctl.checks.judge import MAX_BYTES

    return stream.read(MAX_BYTES + 1)
