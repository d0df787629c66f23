"""Answer: what one command of one tool prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """`keep`: the same until the model changes, so it may be kept in a file and shown with `cat`."""

    out: str = ""
    err: str = ""
    code: int = 0
    keep: bool = True


def not_found(tool: str) -> Answer:
    return Answer(err=f"sh: 1: {tool}: not found\n", code=127, keep=False)
