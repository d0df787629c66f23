"""What every judge of one tool's text is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ndctl.model.findings import Finding
from ndctl.profiles.schema import Profile


@dataclass(frozen=True, slots=True)
class TextJudge:
    """The meaning of one tool's text.

    tool:       the name `ndctl judge` takes
    title:      one line for `ndctl judge --help`
    parse:      text -> facts (a frozen dataclass with `unknown_fields`); never raises
    judge:      facts, profile or None -> findings. No findings, or none but skips, means unknown: a judge that
                is content says so with a pass finding that names what it saw.
    looks_like: how surely a text is this tool's, 0..1, for `auto`; it sees head and tail of a long text
    aliases:    other names a person may type for it
    """

    tool: str
    title: str
    parse: Callable[[str], Any]
    judge: Callable[[Any, Profile | None], Sequence[Finding]]
    looks_like: Callable[[str], float]
    aliases: tuple[str, ...] = ()
