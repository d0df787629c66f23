"""The published JSON Schemas (draft 2020-12) of what ndctl prints for machines, one file per kind of answer."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from ndctl.model.errors import ExitCode, NdctlError


@cache
def names() -> tuple[str, ...]:
    """ "event", "judge", "run", …: what `load` and `ndctl schema` take."""
    return tuple(sorted(one.name[:-5] for one in files(__name__).iterdir() if one.name.endswith(".json")))


def text(name: str) -> str:
    """The schema file as it is. `name` is one of `names()`, or the "ndctl.run/1" that an answer carries.

    Raises NdctlError (exit 2) for a name that has no schema.
    """
    short = name.removeprefix("ndctl.").removesuffix("/1")
    if short not in names():
        raise NdctlError(
            "schema.unknown",
            f"there is no schema {name!r}",
            hint=f"there are: {', '.join(names())}; the inventory's is ndctl inventory schema",
            exit_code=ExitCode.USAGE,
        )
    return files(__name__).joinpath(f"{short}.json").read_text(encoding="utf-8")


def load(name: str) -> dict[str, Any]:
    """The schema as JSON values; see `text`."""
    schema: dict[str, Any] = json.loads(text(name))
    return schema
