"""Waiting for a long-running operation of the SDKs with a deadline of our own (theirs have none)."""

from __future__ import annotations

from typing import Any

from azure.core.polling import LROPoller

from ndctl.model.errors import ExitCode, NdctlError


def finish(poller: LROPoller[Any], deadline_s: float, doing: str) -> Any:
    """The operation's result. Raises what the operation raised; NdctlError when `deadline_s` passed first.

    `LROPoller.result(timeout)` would give an unfinished resource back as if it were the answer.
    """
    poller.wait(deadline_s)
    if not poller.done():
        raise NdctlError(
            "azure.deadline",
            f"{doing}: no end after {deadline_s:.0f} s",
            hint="Azure goes on with it; run the same command again later",
            exit_code=ExitCode.PREFLIGHT,
        )
    return poller.result()
