"""A live resource against the rendered one, property by property. Pure.

Azure's answer holds more than was sent: defaults, read-only figures. So only what was rendered is compared, and what is
more in Azure counts only where more is a change: a tag, an item of a list (a security rule, a subnet).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# Sent, and never shown again.
_WRITE_ONLY = frozenset({"customdata", "adminpassword", "userdata", "protectedsettings"})
# Words that Azure writes in its own case.
_ANY_CASE = frozenset({"location", "vmsize", "protocol", "name", "access", "direction", "type", "principaltype"})


class Sort(StrEnum):
    DIFFERS = "differs"
    GONE = "gone"  # rendered, and Azure has it no more
    ADDED = "added"  # in Azure, not rendered
    NOT_TOLD = "not told"  # Azure's answer does not hold it: it may be right or wrong


@dataclass(frozen=True, slots=True)
class Drifted:
    path: str
    sort: Sort
    wanted: Any = None
    live: Any = None


def drifted(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[Drifted, ...]:
    """wanted: the rendered state of a resource; live: Azure's JSON of it."""
    return tuple(_members("", wanted, live))


def _members(path: str, wanted: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[Drifted]:
    there = {str(key).casefold(): value for key, value in live.items()}
    for key, value in wanted.items():
        place = f"{path}.{key}" if path else str(key)
        if key.casefold() in _WRITE_ONLY:
            yield Drifted(place, Sort.NOT_TOLD, "write-only")
        elif there.get(key.casefold()) is None:
            yield from _absent(place, value)
        else:
            yield from _value(place, value, there[key.casefold()])
    if path.casefold() == "tags":
        mine = {str(key).casefold() for key in wanted}
        for key, value in live.items():
            if str(key).casefold() not in mine:
                yield Drifted(f"{path}.{key}", Sort.ADDED, None, value)


def _absent(path: str, value: Any) -> Iterator[Drifted]:
    """An object, a list or a tag that is not there was taken away; a plain value may be left out of the answer."""
    if value in (None, "", [], {}):
        return
    whole = isinstance(value, (Mapping, list)) or path.casefold().startswith("tags.")
    yield Drifted(path, Sort.GONE if whole else Sort.NOT_TOLD, value)


def _value(path: str, wanted: Any, live: Any) -> Iterator[Drifted]:
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        yield from _members(path, wanted, live)
    elif isinstance(wanted, list) and isinstance(live, list):
        yield from _items(path, wanted, live)
    elif wanted is None:
        yield Drifted(path, Sort.NOT_TOLD, None, live)  # a parameter that nobody gave a value to here
    elif not _same(path, wanted, live):
        yield Drifted(path, Sort.DIFFERS, wanted, live)


def _items(path: str, wanted: list[Any], live: list[Any]) -> Iterator[Drifted]:
    """By name or id where all have one; plain values as a set, since Azure keeps no order of them."""
    ours, theirs = _keyed(wanted, live), _keyed(live, wanted)
    for key, (label, value) in ours.items():
        if key not in theirs:
            yield Drifted(f"{path}.{label}", Sort.GONE, value)
        elif isinstance(value, Mapping):
            yield from _value(f"{path}.{label}", value, theirs[key][1])
    for key, (label, value) in theirs.items():
        if key not in ours:
            yield Drifted(f"{path}.{label}", Sort.ADDED, None, value)


def _keyed(items: list[Any], others: list[Any]) -> dict[str, tuple[str, Any]]:
    """Key -> (how it is called in a path, item)."""
    both = [*items, *others]
    for name in ("name", "id", "path"):
        if both and all(isinstance(one, Mapping) and isinstance(one.get(name), str) for one in both):
            return {one[name].casefold(): (one[name].rpartition("/")[2], one) for one in items}
    if any(isinstance(one, (Mapping, list)) for one in both):
        return {str(at): (str(at), one) for at, one in enumerate(items)}
    return {str(one).casefold(): (str(one), one) for one in items}


def _same(path: str, wanted: Any, live: Any) -> bool:
    if isinstance(wanted, str) and isinstance(live, str):
        key = path.rpartition(".")[2].casefold()
        if key == "location":
            return wanted.casefold().replace(" ", "") == live.casefold().replace(" ", "")
        if key in _ANY_CASE or wanted.startswith("/subscriptions/"):
            return wanted.casefold() == live.casefold()
        return wanted == live or wanted.strip() == live.strip()
    if isinstance(wanted, bool) is not isinstance(live, bool):
        return str(wanted).casefold() == str(live).casefold()
    return bool(wanted == live)
