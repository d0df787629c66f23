"""Inventories from files: all errors of a file in one go, each at its line, and a `Loaded` when there are none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from ndctl.inventory.effective import Effective, digest_of, effective_values
from ndctl.inventory.json_schema import json_schema
from ndctl.inventory.proven import Proven, proven_of, with_proven
from ndctl.inventory.rules import broken_rules, find_profile
from ndctl.inventory.schema import AZURE_KEYS, Inventory, azure_or_static_problems
from ndctl.inventory.static import static_cluster
from ndctl.model.errors import ExitCode, ManyErrors, NdctlError, Where
from ndctl.profiles.marked_yaml import Document, KeyPath, read, undotted
from ndctl.profiles.placed_errors import in_file_order, placed_errors
from ndctl.profiles.schema import Profile

__all__ = ["Loaded", "json_schema", "load", "load_each", "load_many", "static_cluster"]

AnswersLost = Callable[[NdctlError], None]
_START = "ndctl init NAME writes one to start from"


@dataclass(frozen=True, eq=False)
class Loaded:
    """A valid inventory, and its file: `path` as it was given, `document` with the place of every key.

    profile: with `proven`, what first contact has proven of this cluster, in the place of its own figures
    """

    inventory: Inventory
    path: Path
    profile: Profile
    document: Document
    proven: Mapping[str, Proven] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """sha256 of the effective inventory; comments and the order of keys do not change it."""
        return digest_of(self.effective())

    def effective(self) -> list[Effective]:
        """(key, value, origin) of every value in force; see `effective.effective_values`."""
        return effective_values(self.inventory, self.profile, self.document)

    def where(self, key: str | KeyPath) -> Where:
        """The key in the file, e.g. "network.create"; its nearest parent where the file leaves it out."""
        return self.document.where_key(undotted(key, self.document) if isinstance(key, str) else key)

    def path_of(self, text: str, /) -> Path:
        """A file the inventory names: `~` is expanded, relative means relative to the inventory. It need not exist."""
        try:
            named = Path(text).expanduser()
        except RuntimeError as error:
            raise NdctlError(
                "inventory.no-home", f"'{text}': {error}", where=Where(self.path), exit_code=ExitCode.USAGE
            ) from error
        return Path(os.path.abspath(self.path.parent / named))

    @property
    def vms_per_rack(self) -> int:
        """VMs asked for in each rack; for static racks the profile's, which a listed rack may fall short of."""
        return self.inventory.vms_per_rack or self.profile.vms_per_rack.value

    @property
    def image(self) -> str:
        return self.inventory.image or self.profile.azure.image.value


def load(path: Path | str, *, answers_lost: AnswersLost | None = None) -> Loaded:
    """Read one inventory.

    answers_lost: told why what first contact has proven cannot be read, for who does not judge by it: the profile's own
    figures then serve. Without it that is an error.
    Raises NdctlError, or ManyErrors when there are several, all exit 2 and each at file:line:column.
    """
    file = Path(path)
    try:
        document = read(file, "inventory")
    except NdctlError as error:
        if error.code in ("inventory.not-found", "inventory.empty"):
            error.hint = _START
        raise
    errors = list(document.errors)
    try:
        inventory = Inventory.model_validate(document.data)
    except ValidationError as error:
        errors += _of_schema(error, document)
        raise _together(errors) from error
    try:
        profile = find_profile(inventory, document)
    except NdctlError as error:
        raise _together([*errors, error]) from error
    errors += broken_rules(inventory, profile, document)
    if errors:
        raise _together(errors)
    try:
        proven = proven_of(profile, inventory, file)
    except NdctlError as error:
        if answers_lost is None:
            raise
        answers_lost(error)
        proven = {}
    return Loaded(inventory, file, with_proven(profile, inventory.cluster, proven), document, proven)


def load_many(paths: Iterable[Path | str]) -> list[Loaded]:
    """Read inventories from files and folders (each *.yaml in it), in that order, a file once however often named.

    Raises NdctlError or ManyErrors with the errors of all of them; two inventories of one cluster name are an error.
    """
    found, errors = load_each(paths)
    if errors:
        raise _together(errors, sort=False)
    return found


def load_each(
    paths: Iterable[Path | str], *, answers_lost: AnswersLost | None = None
) -> tuple[list[Loaded], list[NdctlError]]:
    """As `load_many`, but the sound ones are returned beside the errors of the others."""
    found: list[Loaded] = []
    errors: list[NdctlError] = []
    files, missing = _files(paths)
    errors += missing
    for file in files:
        try:
            loaded = load(file, answers_lost=answers_lost)
        except ManyErrors as many:
            errors += many.errors
        except NdctlError as error:
            errors.append(error)
        else:
            name = loaded.inventory.cluster
            twin = next((one for one in found if one.inventory.cluster == name), None)
            if twin is None:
                found.append(loaded)
            else:
                errors.append(_same_cluster(loaded, twin))
    return found, errors


def _files(paths: Iterable[Path | str]) -> tuple[list[Path], list[NdctlError]]:
    files: dict[Path, Path] = {}
    errors: list[NdctlError] = []
    for path in map(Path, paths):
        inside = [path]
        if path.is_dir():
            inside = sorted(file for file in path.glob("*.yaml") if not file.is_dir())
            if not inside:
                message = "no *.yaml file in this folder"
                errors.append(
                    NdctlError("inventory.none", message, hint=_START, where=Where(path), exit_code=ExitCode.USAGE)
                )
        for file in inside:
            files.setdefault(Path(os.path.realpath(file)), file)
    return list(files.values()), errors


def _same_cluster(loaded: Loaded, twin: Loaded) -> NdctlError:
    name = loaded.inventory.cluster
    return NdctlError(
        "inventory.same-cluster",
        f"cluster '{name}' is also in {twin.where('cluster')}",
        hint="a cluster has one inventory; give one of them another name",
        where=loaded.document.where_value(("cluster",)),
        exit_code=ExitCode.USAGE,
    )


def _of_schema(error: ValidationError, document: Document) -> list[NdctlError]:
    """The schema's errors; what a whole inventory lacks is told key by key, even beside errors in single keys."""
    problems = azure_or_static_problems(document.data)
    missing = [key for key, message in problems if message.startswith("missing")]
    placed = placed_errors(error, document, Inventory, "inventory", missing)
    found = [one for one in placed if one.code != "inventory.whole"]
    for one in found:
        if one.code == "inventory.missing-key" and set(AZURE_KEYS) <= set(missing):
            one.hint = "racks that are not on Azure need 'static' and 'profile' instead"
    for key, message in problems:
        if key not in missing:
            where = document.where_key((key,))
            found.append(NdctlError("inventory.not-for-static", message, where=where, exit_code=ExitCode.USAGE))
    return found


def _together(errors: list[NdctlError], sort: bool = True) -> NdctlError:
    if sort:
        errors = in_file_order(errors)
    return errors[0] if len(errors) == 1 else ManyErrors(errors)
