"""ndctl render: an inventory as ARM templates, parameters and cloud-init, offline."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.output import emit, say
from ndctl.model.errors import ExitCode, NdctlError

if TYPE_CHECKING:
    from ndctl.render.rendered import Rendered

RENDER_SCHEMA = "ndctl.render/1"
_RACK_FILE = re.compile(r"^rack\d{2,}(\.parameters)?\.json$")


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command(name="render")(render)


def render(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY")],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder to write to [default: ./out/<cluster>]; - prints."),
    ] = None,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="GIT-REV",
            help="Write nothing: show what changed since this revision of the inventory (and of ndctl's templates, "
            "where they are in the same repository), and what it would come to.",
            show_default=False,
        ),
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="With --diff: exit status 9 when something changed.")
    ] = False,
) -> None:
    """Write ARM templates, parameters and cloud-init, offline and without signing in.

    Exit status: 0, 2 usage, inventory or revision, 9 something changed (--diff with --detailed-exitcode).
    """
    from ndctl.inventory.loader import load
    from ndctl.render import render as render_cluster

    if diff is not None:
        raise typer.Exit(_show_diff(inventory, output, diff, detailed_exitcode))
    rendered = render_cluster(load(inventory))
    if output == "-":
        emit(_document(rendered))
    else:
        folder = Path(output) if output else Path("out") / rendered.cluster
        files = rendered.files()
        _refuse_other_cluster(folder, rendered.cluster)
        _write(folder, files)
        for name, text in files.items():
            emit(f"{hashlib.sha256(text.encode()).hexdigest()}  {folder / name}")
        _tell_leftovers(folder, files)
    for note in rendered.notes:
        say(f"note: {', '.join(rendered.missing_parameters)} has no value: {note}")


def _show_diff(inventory: Path, output: str | None, revision: str, detailed_exitcode: bool) -> int:
    from ndctl.cli.render_diff_text import diff_lines
    from ndctl.inventory.loader import load
    from ndctl.render import render as render_cluster
    from ndctl.report.render_diff import render_diff
    from ndctl.workflow.revision import at_revision

    if output is not None:
        raise NdctlError("render.usage", "--diff writes nothing: leave -o out", exit_code=ExitCode.USAGE)
    now = render_cluster(load(inventory))
    with at_revision(inventory, revision) as old:
        try:
            before = render_cluster(old.loaded, templates=old.templates)
        except (RuntimeError, ValueError) as error:
            raise NdctlError(
                "render.old-templates",
                f"the templates of {revision} cannot be rendered by this version of ndctl: {error}",
                hint="compare with a later revision",
                exit_code=ExitCode.USAGE,
            ) from error
        label = old.revision[:12]
    found = render_diff(before, now, label)
    emit("\n".join(diff_lines(found, str(inventory), f"{revision} ({label})" if revision != label else label)))
    return int(ExitCode.CHANGES if detailed_exitcode and not found.empty else ExitCode.OK)


def _document(rendered: Rendered) -> str:
    """Everything `-o DIR` would write, as one JSON object."""
    from ndctl.render.rendered import json_text

    return json_text(
        {
            "schema": RENDER_SCHEMA,
            "cluster": rendered.cluster,
            "missing_parameters": list(rendered.missing_parameters),
            "deployments": [
                {
                    "name": one.name,
                    "rack": one.rack,
                    "template": one.template,
                    "parameters": one.parameters_file(),
                }
                for one in rendered.deployments
            ],
            "cloud_init": rendered.cloud_init,
        }
    )


def _refuse_other_cluster(folder: Path, cluster: str) -> None:
    """Two clusters in one folder would leave a mixture that looks whole."""
    from ndctl.render.names import TAG_CLUSTER

    try:
        there = json.loads((folder / "foundation.json").read_text(encoding="utf-8"))
        owner = there["resources"][0]["tags"][TAG_CLUSTER]
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise NdctlError(
            "render.foreign-folder",
            f"{folder}/foundation.json was not written by ndctl render ({type(error).__name__})",
            hint="give another folder: -o DIR",
            exit_code=ExitCode.USAGE,
        ) from error
    if owner != cluster:
        raise NdctlError(
            "render.foreign-folder",
            f"{folder} holds the templates of {owner}, not of {cluster}",
            hint=f"give another folder: -o out/{cluster}",
            exit_code=ExitCode.USAGE,
        )


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """All texts are on disk under temporary names before the first one takes its place."""
    staged: list[tuple[Path, Path]] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            descriptor, temporary = tempfile.mkstemp(prefix=".ndctl-", dir=folder)
            staged.append((Path(temporary), folder / name))
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as handle:
                handle.write(text)
            # mkstemp makes files for the owner alone; templates hold no secret and are meant to be shared.
            os.chmod(temporary, 0o644)
        for temporary_path, target in staged:
            temporary_path.replace(target)
    except OSError as error:
        raise NdctlError(
            "render.cannot-write",
            f"cannot write to {folder}: {error.strerror or error}",
            hint="give another folder: -o DIR",
            exit_code=ExitCode.USAGE,
        ) from error
    finally:
        for temporary_path, _ in staged:
            temporary_path.unlink(missing_ok=True)


def _tell_leftovers(folder: Path, files: Mapping[str, str]) -> None:
    """Racks of an earlier, larger render stay on disk: they may still be deployed, so they are named, not deleted."""
    stale = sorted(one.name for one in folder.iterdir() if _RACK_FILE.match(one.name) and one.name not in files)
    if stale:
        say(f"warning: {folder} also holds files of an earlier render, not written now: {', '.join(stale)}")
