"""Profiles by name and by VM size. A new size is a new file: in `data/`, or in the folder $NDCTL_PROFILES names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from ndctl.model.errors import ExitCode, ManyErrors, NdctlError, Where
from ndctl.profiles.marked_yaml import Document, read
from ndctl.profiles.placed_errors import did_you_mean, in_file_order, placed_errors
from ndctl.profiles.schema import Profile

_SHIPPED = Path(__file__).parent / "data"
SITE_FOLDER_VARIABLE = "NDCTL_PROFILES"


def names() -> list[str]:
    """Every profile there is, sorted."""
    return sorted(_files())


def load(name: str) -> Profile:
    """The profile of that name, in any case. Raises NdctlError (exit 2): no such profile, or its file is bad."""
    files = _files()
    file = files.get(name.strip().lower())
    if file is None:
        raise NdctlError(
            "profile.unknown", f"no profile '{name}'", hint=did_you_mean(name, files), exit_code=ExitCode.USAGE
        )
    return _load_file(file)


def for_vm_size(size: str) -> Profile:
    """The profile that names this VM size, in any case; the site's own files are asked first.

    Raises NdctlError (exit 2) with code "profile.unknown-size" when none does.
    """
    wanted = size.strip().lower()
    known: list[str] = []
    for file in _files().values():
        profile = _load_file(file)
        known += profile.azure.vm_sizes
        if wanted in (one.lower() for one in profile.azure.vm_sizes):
            return profile
    raise NdctlError(
        "profile.unknown-size",
        f"no profile for VM size '{size}'",
        hint=did_you_mean(size, known),
        exit_code=ExitCode.USAGE,
    )


def _files() -> dict[str, Path]:
    """Name -> file; a site's file stands before and in place of a shipped one of the same name."""
    found = {file.stem.lower(): file for file in _site_files()}
    return found | {file.stem.lower(): file for file in _yaml_in(_SHIPPED) if file.stem.lower() not in found}


def _site_files() -> Iterator[Path]:
    folder = os.environ.get(SITE_FOLDER_VARIABLE, "")
    if not folder:
        return
    path = Path(folder)
    if not path.is_dir():
        raise NdctlError(
            "profile.no-folder",
            f"${SITE_FOLDER_VARIABLE} names no folder",
            hint="unset it, or name a folder with one YAML file a profile",
            where=Where(path),
            exit_code=ExitCode.USAGE,
        )
    yield from _yaml_in(path)


def _yaml_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix == ".yaml" and file.is_file())


def _load_file(file: Path) -> Profile:
    try:
        status = file.stat()
    except OSError:
        return _parsed(file, 0, 0)  # the reader says what is wrong with it
    return _parsed(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _parsed(file: Path, modified: int, size: int) -> Profile:
    """Kept by file state, since a run asks for the same profile many times."""
    document = read(file, "profile")
    errors = list(document.errors)
    profile: Profile | None = None
    try:
        profile = Profile.model_validate(document.data)
    except ValidationError as error:
        errors += placed_errors(error, document, Profile, "profile")
    if profile is not None and profile.name != file.stem.lower():
        errors.append(_name_differs(profile.name, document))
    if errors:
        raise errors[0] if len(errors) == 1 else ManyErrors(in_file_order(errors))
    assert profile is not None
    return profile


def _name_differs(name: str, document: Document) -> NdctlError:
    return NdctlError(
        "profile.name",
        f"named '{name}' inside, but the file is {document.file.name}",
        hint="give both the same name",
        where=document.where_value(("name",)),
        exit_code=ExitCode.USAGE,
    )
