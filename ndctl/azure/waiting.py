"""Waiting for a long-running operation of the SDKs with a deadline of our own (theirs have none)."""

from __future__ import annotations

from typing import Any

from azure.core.polling import LROPoller

from ndctl.model.errors import ExitCode, NdctlError


class DeadlinePassed(NdctlError):
    """A long-running operation had no end in the time it was given; Azure goes on with it."""

    def __init__(self, doing: str, deadline_s: float) -> None:
        super().__init__(
            "azure.deadline",
            f"{doing}: no end after {deadline_s:.0f} s",
            hint="Azure goes on with it; run the same command again later",
            exit_code=ExitCode.PREFLIGHT,
        )


def finish(poller: LROPoller[Any], deadline_s: float, doing: str) -> Any:
    """The operation's result. Raises what the operation raised; DeadlinePassed when `deadline_s` passed first.

    `LROPoller.result(timeout)` would give an unfinished resource back as if it were the answer.
    """
    poller.wait(deadline_s)
    if not poller.done():
        raise DeadlinePassed(doing, deadline_s)
    return poller.result()
