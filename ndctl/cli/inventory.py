"""ndctl inventory lint | show | schema."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.output import emit, say
from ndctl.model.errors import ManyErrors, NdctlError

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

SHOW_SCHEMA = "ndctl.inventory/1"


class ShowFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    group = typer.Typer(no_args_is_help=True, help="Check inventories, and see what they mean.")
    group.command(name="lint")(lint)
    group.command(name="show")(show)
    group.command(name="schema")(schema)
    app.add_typer(group, name="inventory")


def lint(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Inventory files, or folders of them.")],
) -> None:
    """Check inventories; every error is shown at its line. Exit 2 when there is one.

    A file it names that is missing, empty or unreadable on this machine is a warning: another one may deploy.
    """
    from datetime import UTC, datetime

    from ndctl.inventory.loader import load_each
    from ndctl.inventory.named_files import unusable_files
    from ndctl.workflow.known_checks import switched_off, wrongly_disabled

    sound, errors = load_each(paths)
    today = datetime.now(UTC).date()
    for loaded in sound:
        wrong = [*wrongly_disabled(loaded), *_refused_key(loaded)]
        errors += wrong
        if not wrong:
            emit(f"{loaded.path}: ok ({summary(loaded)})")
            for where, told in unusable_files(loaded):
                say(f"{where}  warning: {told}")
            for entry in switched_off(loaded, today):
                if not entry.in_force:
                    say(f"{entry.where}  warning: {entry.warning}")
    if errors:
        raise errors[0] if len(errors) == 1 else ManyErrors(errors)


def _refused_key(loaded: Loaded) -> list[NdctlError]:
    """Why the file of ssh.public_key would be refused: a private key, or a kind that Azure does not take."""
    from ndctl.inventory.named_files import public_key_file
    from ndctl.render.keys import public_key

    file = public_key_file(loaded)
    if file is None:
        return []
    if loaded.inventory.static is not None and b"PRIVATE KEY" not in file.read_bytes():
        return []
    try:
        public_key(loaded.inventory.ssh.public_key, loaded.path_of, loaded.where("ssh.public_key"))
    except NdctlError as error:
        return [error]
    return []


def show(
    path: Annotated[Path, typer.Argument(metavar="INVENTORY", help="Inventory file.")],
    output: Annotated[ShowFormat, typer.Option("-o", "--output", help="How to print it.")] = ShowFormat.TABLE,
) -> None:
    """Show every value in force, and where it comes from: the file, the profile or a default."""
    from ndctl.inventory.loader import load
    from ndctl.model.jsonable import dumps

    loaded = load(path)
    values = loaded.effective()
    if output is ShowFormat.JSON:
        emit(
            dumps(
                {
                    "schema": SHOW_SCHEMA,
                    "path": str(loaded.path),
                    "cluster": loaded.inventory.cluster,
                    "profile": loaded.profile.name,
                    "digest": loaded.digest,
                    "values": [{"key": key, "value": value, "origin": origin} for key, value, origin in values],
                }
            )
        )
        return
    emit(f"{loaded.path}  {summary(loaded)}\ndigest {loaded.digest}\n\n")
    rows = [(key, _shown(value), origin) for key, value, origin in values]
    key_width = max(len(key) for key, _, _ in rows)
    # One long value, such as a resource id, must not push every origin off the screen.
    value_width = min(54, max(len(value) for _, value, _ in rows))
    for key, value, origin in rows:
        emit(f"{key:{key_width}}  {value:{value_width}}  {origin}")


def schema() -> None:
    """Print the JSON Schema of inventories, for editors."""
    from ndctl.inventory.json_schema import json_schema
    from ndctl.model.jsonable import dumps

    emit(dumps(json_schema()))


def summary(loaded: Loaded) -> str:
    """cluster swc-a, 64 racks, 1,152 VMs, profile gb300."""
    from ndctl.inventory.static import static_cluster

    inventory = loaded.inventory
    if inventory.static is None:
        racks = inventory.racks or 0
        size = f"{_count(racks, 'rack')}, {_count(racks * loaded.vms_per_rack, 'VM')}"
    else:
        cluster = static_cluster(loaded)
        size = f"{_count(len(cluster.racks), 'static rack')}, {_count(len(cluster.nodes), 'node')}"
    return f"cluster {inventory.cluster}, {size}, profile {loaded.profile.name}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "(none)"
    if isinstance(value, dict):
        return "(none)"
    return str(value)
