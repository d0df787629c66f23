"""When a part of an ssh_config applies: `Host` and `Match` lines as conditions, and ssh's patterns.

Source: ssh_config(5), PATTERNS, Host, Match. Only the first pass of ssh is followed: `canonical` and `final` are never
met. A criterion that is not understood (`exec` included: nothing of the user's is run) is never met, negated or not.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

_ASKS = ("host", "originalhost", "user", "localuser")
_LATER_PASS = ("canonical", "final")


@dataclass(frozen=True, slots=True)
class Asked:
    """What conditions look at. `host` is the name with HostName applied so far, `original` as it was asked for."""

    original: str
    host: str
    user: str
    local_user: str


@dataclass(frozen=True, slots=True)
class Condition:
    """One criterion. `patterns` of `Host` are words, of `Match` the parts of a comma list.

    fold: upper and lower case are alike, as for the hosts of Match, but not for those of Host
    """

    what: str
    patterns: tuple[str, ...] = ()
    negated: bool = False
    fold: bool = False

    def met(self, asked: Asked) -> bool:
        if self.what == "never":
            return False
        value = {
            "host": asked.host,
            "originalhost": asked.original,
            "user": asked.user,
            "localuser": asked.local_user,
        }[self.what]
        return matches(self.patterns, value, fold=self.fold) != self.negated


NEVER = Condition("never")


def host_line(words: Sequence[str]) -> Condition:
    """`Host a b !c`."""
    return Condition("originalhost", tuple(words))


def match_line(words: Sequence[str]) -> tuple[tuple[Condition, ...], str]:
    """(conditions that must all be met, why the block can never be met or "")."""
    conditions: list[Condition] = []
    left = list(words)
    while left:
        word = left.pop(0)
        negated = word.startswith("!")
        name, has_value, value = word.removeprefix("!").partition("=")
        name = name.lower()
        if name == "all":
            alone = len(words) == 1
            return ((), "") if alone and not negated else ((NEVER,), "all stands alone")
        if name in _LATER_PASS:
            if not negated:
                return (NEVER,), f"{name} asks for a second reading"
            continue
        if name not in _ASKS:
            return (NEVER,), f"{name} is not followed"
        if not has_value:
            if not left:
                return (NEVER,), f"{name} has no value"
            value = left.pop(0)
        conditions.append(Condition(name, tuple(value.split(",")), negated, fold=name in ("host", "originalhost")))
    return tuple(conditions), ""


def matches(patterns: Sequence[str], value: str, *, fold: bool = False) -> bool:
    """Some pattern fits and no negated one does; only * and ? are special. `fold`: upper and lower case are alike."""
    hit = False
    for pattern in patterns:
        negated = pattern.startswith("!")
        plain = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(value.lower() if fold else value, plain.lower() if fold else plain):
            if negated:
                return False
            hit = True
    return hit
