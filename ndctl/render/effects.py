"""What a change of one property of a live resource comes to, from the table in `property_effects.yaml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any


class Effect(StrEnum):
    """From the mildest to the worst; `UNKNOWN` is no promise, so it ranks above what is known to be mild."""

    NOISE = "noise"
    IN_PLACE = "in place"
    UNKNOWN = "unknown"
    REIMAGE = "needs reimage"
    REPLACES = "replaces"
    DELETES = "deletes"


_SEVERITY = {effect: place for place, effect in enumerate(Effect)}


@dataclass(frozen=True, slots=True)
class Meaning:
    """source: who says so, with its date; "" where nobody does. note: what a careful reader must know."""

    effect: Effect
    note: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    parts: tuple[str, ...]
    effect: Effect
    when: Any
    note: str
    source: str


def meaning_of(resource_type: str, path: str, before: Any = None, after: Any = None) -> Meaning:
    """path: dotted, e.g. "properties.virtualMachineProfile.osProfile.customData"; Azure's names ignore case.

    A value that is an object or a list stands for all that is in it: the worst effect of what differs inside.
    """
    inside = [meaning_of(resource_type, *one) for one in _inside(path, before, after)]
    if inside:
        return max(inside, key=lambda one: _SEVERITY[one.effect])
    every, types = _table()
    parts = tuple(part.casefold() for part in path.split("."))
    for row in (*every, *types.get(resource_type.casefold(), ())):
        if _fits(row.parts, parts) and _when(row.when, before, after):
            return Meaning(row.effect, row.note, row.source)
    return Meaning(Effect.UNKNOWN, "no source says what this comes to")


def worst(effects: Iterable[Effect]) -> Effect | None:
    """The one to tell of when several apply; None when there are none."""
    return max(effects, key=_SEVERITY.__getitem__, default=None)


def _inside(path: str, before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """The properties of two objects or lists that differ; one of them may be missing altogether."""
    old, new = _members(before), _members(after)
    if not old and not new:
        return []
    if (before is not None and not old) or (after is not None and not new):
        return []  # an object takes the place of a plain value: that is one change
    keys = dict.fromkeys((*old, *new))
    return [(f"{path}.{key}", old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]


def _members(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return {str(index): item for index, item in enumerate(value)}
    return {}


@cache
def _table() -> tuple[tuple[_Row, ...], Mapping[str, tuple[_Row, ...]]]:
    import yaml

    told = yaml.safe_load(files(__package__ or __name__).joinpath("property_effects.yaml").read_text(encoding="utf-8"))
    sources = {key: f"{one['title']} ({one['date']})" for key, one in told["sources"].items()}

    def row(one: Mapping[str, Any]) -> _Row:
        doubt = ", inferred" if one.get("mark") == "I" else ""
        return _Row(
            parts=tuple(part.casefold() for part in one["path"].split(".")),
            effect=Effect(one["effect"]),
            when=one.get("when"),
            note=one.get("note", ""),
            source=sources[one["source"]] + doubt,
        )

    types = {kind: tuple(row(one) for one in rows) for kind, rows in told["types"].items()}
    return tuple(row(one) for one in told["every"]), types


def _fits(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    head, rest = pattern[0], pattern[1:]
    if head == "**":
        return any(_fits(rest, parts[at:]) for at in range(len(parts) + 1))
    return bool(parts) and head in ("*", parts[0]) and _fits(rest, parts[1:])


def _when(condition: Any, before: Any, after: Any) -> bool:
    if condition is None:
        return True
    if condition == "lowered":
        numbers = isinstance(before, (int, float)) and isinstance(after, (int, float))
        return numbers and after < before
    return bool(before == condition["from"] and after == condition["to"])
