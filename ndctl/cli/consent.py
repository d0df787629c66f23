"""Asking before acting: a typed word on a terminal, `--yes` without one."""

from __future__ import annotations

import sys

from ndctl.model.errors import ExitCode, NdctlError


def ask(question: str, wanted: str, *, yes: bool) -> None:
    """Return when the person typed `wanted`, or `yes` was given. The question goes to stderr.

    Raises NdctlError (exit 2): nobody to ask and no --yes, or another word was typed.
    """
    if yes:
        return
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise NdctlError(
            "consent.nobody",
            "this needs consent, and there is no terminal to ask on",
            hint="look at the plan, then add --yes",
            exit_code=ExitCode.USAGE,
        )
    sys.stderr.write(f"{question} Type {wanted} to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != wanted:
        raise NdctlError("consent.refused", "not confirmed; nothing was changed", exit_code=ExitCode.USAGE)
