"""What verbs that do not judge say when the answers of first contact cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndctl.model.errors import NdctlError


def going_on_without(error: NdctlError) -> None:
    """On stderr: what is wrong with them, and what mends it."""
    from ndctl.cli.output import say

    say(f"{error.where}: {error.message}; going on without it\nhint: {error.hint}")
