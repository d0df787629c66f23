"""Two JSON objects of Azure, property by property."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class _Absent:
    """Not there at all, which is not null."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Any = _Absent()


@dataclass(frozen=True, slots=True)
class Difference:
    """path: dotted, items of lists by their name where they have one, else by place. ABSENT: not there."""

    path: str
    before: Any
    after: Any


def differences(before: Any, after: Any) -> tuple[Difference, ...]:
    """In the order of `after`, then what only `before` has. Keys are Azure's, which ignore case."""
    return tuple(_compare("", before, after))


def _compare(path: str, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _members(path, {str(k): v for k, v in before.items()}, {str(k): v for k, v in after.items()})
    elif _is_list(before) and _is_list(after):
        yield from _members(path, _by_name(before, after), _by_name(after, before))
    elif before != after or isinstance(before, bool) is not isinstance(after, bool):
        yield Difference(path, before, after)


def _members(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    earlier = {key.casefold(): key for key in before}
    later = {key.casefold() for key in after}
    for key, value in after.items():
        was = before[earlier[key.casefold()]] if key.casefold() in earlier else ABSENT
        yield from _compare(f"{path}.{key}" if path else key, was, value)
    for key, value in before.items():
        if key.casefold() not in later:
            yield Difference(f"{path}.{key}" if path else key, value, ABSENT)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _by_name(items: Sequence[Any], others: Sequence[Any]) -> dict[str, Any]:
    """Items by name where all have one: an item put in front does not make all others look changed."""
    both = [*items, *others]
    named = bool(both) and all(isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in both)
    names = [one["name"] for one in items] if named else []
    if named and len({name.casefold() for name in names}) == len(names):
        return dict(zip(names, items, strict=True))
    return {str(index): one for index, one in enumerate(items)}
