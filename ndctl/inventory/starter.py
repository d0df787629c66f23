"""The text of a new inventory: a file of `starters/`, each an inventory itself, with the name put in."""

from __future__ import annotations

import re
from pathlib import Path

from ndctl.model.errors import ExitCode, NdctlError

_FOLDER = Path(__file__).parent / "starters"
_PLACEHOLDER = "my-cluster"
_NAME = re.compile(r"^[a-z][a-z0-9-]{0,30}[a-z0-9]$")


def starter(name: str, *, static: bool = False) -> str:
    """A commented inventory of cluster `name` that is valid as it is. Raises NdctlError (exit 2): no cluster name."""
    if not _NAME.match(name):
        near = re.sub(r"[^a-z0-9]+", "-", name.lower()).lstrip("-0123456789")[:32].rstrip("-")
        raise NdctlError(
            "init.name",
            f"'{name}' is no cluster name: small letters, digits and '-', 2 to 32, first a letter",
            hint=f"ndctl init {near}" if _NAME.match(near) else "e.g. ndctl init swc-a",
            exit_code=ExitCode.USAGE,
        )
    text = (_FOLDER / ("static.yaml" if static else "azure.yaml")).read_text(encoding="utf-8")
    return text.replace(_PLACEHOLDER, name)
