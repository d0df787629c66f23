"""A folder somebody handed over, read with care: nothing outside it is opened, whatever its files say."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ndctl.model.errors import ExitCode, NdctlError, Where

MOST_BYTES = 64 * 2**20  # of one file; the largest that is ever recorded is a fraction of it


def broken(path: Path, why: str, hint: str = "ask for the bundle again: ndctl report RUN --bundle DIR") -> NdctlError:
    return NdctlError("bundle.broken", why, hint=hint, where=Where(path), exit_code=ExitCode.USAGE)


def file_name(name: str) -> str:
    """A name as one part of a path: what could lead elsewhere is escaped. "" stays ""."""
    return quote(name, safe="").replace("~", "%7E")


def read_bytes(root: Path, *parts: str) -> bytes:
    """A plain file below `root`. Raises NdctlError (exit 2): it is missing, too large, or a link to somewhere."""
    path = root.joinpath(*parts)
    for length in range(1, len(parts) + 1):
        if parts[length - 1] in ("", ".", "..") or "/" in parts[length - 1] or "\0" in parts[length - 1]:
            raise broken(root, f"{'/'.join(parts)!r} leads out of the bundle")
        if root.joinpath(*parts[:length]).is_symlink():
            raise broken(root.joinpath(*parts[:length]), "is a link; a bundle holds its files itself")
    try:
        # Not followed, and not waited for: a pipe in its place would hold the program for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise broken(path, f"cannot be read: {error.strerror or error}") from error
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise broken(path, "is no plain file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise broken(path, f"is larger than {MOST_BYTES // 2**20} MiB, which nothing in a bundle is")
    return data


def read_object(root: Path, *parts: str) -> dict[str, Any]:
    """A JSON object. Raises NdctlError (exit 2), with the line for bad JSON."""
    path = root.joinpath(*parts)
    try:
        value = json.loads(read_bytes(root, *parts).decode("utf-8"))
    except json.JSONDecodeError as error:
        where = Where(path, error.lineno, error.colno)
        hint = "it was cut or edited; ask for the bundle again"
        message = f"no JSON: {error.msg}"
        raise NdctlError("bundle.broken", message, hint=hint, where=where, exit_code=ExitCode.USAGE) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise broken(path, f"no JSON: {type(error).__name__}") from error
    if not isinstance(value, dict):
        raise broken(path, "holds no JSON object")
    return value


def read_text(root: Path, *parts: str) -> str:
    """What `write_text` wrote; bytes that are not of UTF-8, after somebody's editing, become U+FFFD."""
    data = read_bytes(root, *parts)
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def write_text(path: Path, text: str) -> None:
    """A new file, its owner's only."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode("utf-8", "surrogatepass"))


def make_empty(path: Path) -> None:
    """The folder, made, or there and empty. Raises NdctlError (exit 2)."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        inside = next(path.iterdir(), None)
    except OSError as error:
        raise NdctlError(
            "bundle.folder",
            f"{path} cannot be used: {error.strerror or error}",
            hint="name a folder that does not exist yet",
            exit_code=ExitCode.USAGE,
        ) from error
    if inside is not None:
        raise NdctlError(
            "bundle.not-empty",
            f"{path} is not empty",
            hint="name a folder that does not exist yet, or is empty",
            exit_code=ExitCode.USAGE,
        )
