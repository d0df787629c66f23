"""NdctlError and the exit codes; rendered in one place, `cli.main`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    OK = 0
    INTERNAL = 1
    USAGE = 2
    PERMISSION = 3
    PREFLIGHT = 4
    DEPLOY_FAILED = 5  # no rack as planned
    DEPLOY_PARTIAL = 6  # some racks as planned
    REJECTED = 7
    INCOMPLETE = 8
    CHANGES = 9  # only with --detailed-exitcode
    LOCKED_OR_STALE = 10
    INTERRUPTED = 130


_PRECEDENCE = (130, 1, 2, 3, 10, 4, 5, 7, 8, 6, 9, 0)


def worst_exit(codes: Iterable[int]) -> ExitCode:
    """When several exit codes apply, the one the caller most needs to know of."""
    return ExitCode(min(codes, key=_PRECEDENCE.index, default=0))


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a user's file. `line` and `column` count from 1; `width` is how much to underline."""

    file: Path | str
    line: int | None = None
    column: int | None = None
    width: int = 1

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class NdctlError(Exception):
    """An error a person can act on. Raised anywhere below `cli`, rendered there.

    code:    short machine name, e.g. "inventory.unknown-key"
    message: what went wrong, one sentence
    hint:    what to do next, ideally a command
    where:   the line of the user's own file, when there is one
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        where: Where | None = None,
        exit_code: ExitCode = ExitCode.INTERNAL,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.where = where
        self.exit_code = exit_code


class ManyErrors(NdctlError):
    """Several independent errors found in one pass, so that a file can be mended in one go."""

    def __init__(self, errors: list[NdctlError]) -> None:
        super().__init__("many", f"{len(errors)} errors", exit_code=worst_exit(e.exit_code for e in errors))
        self.errors = errors
