"""One number of an inventory file changed in place: comments, order and everything else stay as they were."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from ndctl.inventory.loader import Loaded, load
from ndctl.model.errors import ExitCode, NdctlError

_NUMBER = re.compile(r"\d+")


def with_racks(loaded: Loaded, racks: int) -> Loaded:
    """The inventory as if its file said `racks: N`; nothing is written. Raises NdctlError (exit 2) as `load` does."""
    text = _changed(loaded, racks)
    with tempfile.TemporaryDirectory(prefix="ndctl-scale-") as folder:
        copy = Path(folder) / loaded.path.name
        copy.write_text(text, encoding="utf-8")
        try:
            wished = load(copy)
        except NdctlError as error:
            raise NdctlError(
                "scale.racks",
                f"{racks} racks: {getattr(error, 'errors', [error])[0].message}",
                hint=getattr(error, "errors", [error])[0].hint,
                where=loaded.where("racks"),
                exit_code=ExitCode.USAGE,
            ) from error
    # Files it names are looked for beside the real one.
    return Loaded(wished.inventory, loaded.path, wished.profile, wished.document, wished.proven)


def write_racks(loaded: Loaded, racks: int) -> None:
    """Rewrite the number in the file, in one step. Raises NdctlError (exit 2) when that cannot be done safely."""
    text = _changed(loaded, racks)
    target = loaded.path.resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(temporary, target.stat().st_mode & 0o7777)
        os.replace(temporary, target)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise _refused(loaded, f"cannot write {target}: {error.strerror}") from error


def _changed(loaded: Loaded, racks: int) -> str:
    where = loaded.document.where_value(("racks",))
    with loaded.path.open(encoding="utf-8", newline="") as file:  # line ends stay what they are
        lines = file.read().splitlines(keepends=True)
    line, column = (where.line or 0) - 1, (where.column or 0) - 1
    if ("racks",) not in loaded.document.places or not 0 <= line < len(lines):
        raise _refused(loaded, "the file has no line 'racks:' to change")
    match = _NUMBER.match(lines[line], column)
    if match is None or int(match[0]) != loaded.inventory.racks:
        raise _refused(loaded, "the number of racks is not written as a plain number where it stands")
    lines[line] = lines[line][:column] + str(racks) + lines[line][match.end() :]
    return "".join(lines)


def _refused(loaded: Loaded, message: str) -> NdctlError:
    return NdctlError(
        "scale.not-written",
        message,
        hint="change 'racks:' by hand, then: ndctl deploy INVENTORY",
        where=loaded.where("racks"),
        exit_code=ExitCode.USAGE,
    )
