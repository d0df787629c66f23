"""Permissions as data: which actions each verb needs, and custom role definitions made of them.

`permissions.yaml` beside this file holds the data; its head says what the keys mean. Imports no Azure SDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ndctl.model.errors import ExitCode, NdctlError

Scope = Literal["subscription", "group", "network"]
When = Literal["created-network", "given-subnet", "created-jump", "block", "gallery"]
_ACTION = r"^Microsoft\.[A-Za-z]+(/[A-Za-z*]+)+$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Need(_Strict):
    """One action that a verb asks Azure for."""

    action: str = Field(pattern=_ACTION)
    why: str = Field(min_length=5)
    scope: Scope
    when: When | None = None
    mark: Literal["V", "I", "U"] = "V"
    source: str = ""
    data: bool = False

    @model_validator(mode="after")
    def _doubt_has_a_source(self) -> Need:
        if self.mark != "V" and not self.source:
            raise ValueError(f"{self.action}: mark {self.mark} needs a source")
        return self


class Verb(_Strict):
    """uses: names of sets; verbs: other verbs that this one runs."""

    uses: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    actions: tuple[Need, ...] = ()


class Permissions(_Strict):
    """The whole file."""

    schema_: Literal["ndctl.permissions/1"] = Field(alias="schema")
    sets: dict[str, tuple[Need, ...]]
    verbs: dict[str, Verb]

    @model_validator(mode="after")
    def _names_exist(self) -> Permissions:
        used = {name for verb in self.verbs.values() for name in verb.uses}
        unknown = [name for name in used if name not in self.sets]
        unknown += [name for verb in self.verbs.values() for name in verb.verbs if name not in self.verbs]
        if unknown:
            raise ValueError(f"there is no set or verb {', '.join(sorted(unknown))}")
        idle = sorted(set(self.sets) - used)
        if idle:
            raise ValueError(f"no verb uses {', '.join(idle)}")
        return self


@cache
def permissions() -> Permissions:
    """The table, checked."""
    text = Path(__file__).with_name("permissions.yaml").read_text(encoding="utf-8")
    return Permissions.model_validate(yaml.safe_load(text))


def verb_names() -> tuple[str, ...]:
    return tuple(permissions().verbs)


def verbs_of(text: str) -> tuple[str, ...]:
    """ "deploy,validate" → ("deploy", "validate"), each once. Raises NdctlError (exit 2) for a verb that needs none."""
    named = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    unknown = [one for one in named if one not in verb_names()]
    if unknown or not named:
        raise NdctlError(
            "roles.unknown-verb",
            f"no verb {', '.join(map(repr, unknown))} asks anything of Azure" if unknown else "no verb is named",
            hint=f"there are: {', '.join(verb_names())}",
            exit_code=ExitCode.USAGE,
        )
    return named


def needs_of(verb: str, asked: Iterable[When] | None = None) -> tuple[Need, ...]:
    """What a verb needs, each action once a scope. `asked`: what the inventory asks for; None: anything it could."""
    table = permissions()
    entry = table.verbs[verb]
    found = [need for name in entry.uses for need in table.sets[name]] + list(entry.actions)
    for other in entry.verbs:
        found += needs_of(other)
    wanted = None if asked is None else set(asked)
    kept: dict[tuple[str, str, bool], Need] = {}
    for need in found:
        if wanted is None or need.when is None or need.when in wanted:
            kept.setdefault((need.action.casefold(), need.scope, need.data), need)
    return tuple(kept.values())


def role_definition(
    name: str, verbs: Sequence[str], scopes: Sequence[str], asked: Iterable[When] | None = None
) -> dict[str, Any]:
    """A custom role for these verbs, as `az role definition create --role-definition` takes it.

    Field names: learn.microsoft.com, "Azure custom roles", Custom role properties (Azure CLI also takes PowerShell's
    spelling). An action that a wildcard of the same role covers is left out.
    """
    chosen = None if asked is None else tuple(asked)
    needs = [need for verb in verbs for need in needs_of(verb, chosen)]
    return {
        "Name": name,
        "IsCustom": True,
        "Description": f"What ndctl needs for: {', '.join(verbs)}.",
        "Actions": _widest(need.action for need in needs if not need.data),
        "NotActions": [],
        "DataActions": _widest(need.action for need in needs if need.data),
        "NotDataActions": [],
        "AssignableScopes": list(dict.fromkeys(scopes)),
    }


def covers(pattern: str, action: str) -> bool:
    """Whether a role's entry takes an action: without case, `*` for any text. An action may hold `*` itself."""
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), action, re.IGNORECASE) is not None


def _widest(actions: Iterable[str]) -> list[str]:
    each = sorted({action.casefold(): action for action in actions}.values(), key=str.casefold)
    return [one for one in each if not any(covers(other, one) for other in each if other.casefold() != one.casefold())]
