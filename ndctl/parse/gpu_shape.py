"""Listings that one driver prints differ in their values only: the labels around them, and so the place that each value
has among them, are the same on a thousand nodes. What is found where is worked out once for all listings of a shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ndctl.parse.gpu_leaves import Leaves

# In the listing that a shape is read from, numbers behind this mark stand for values. No plain text holds it.
MARK = "\0"

Place = int | str | None  # the number of a value; a text that every listing of the shape has there; nothing


class Shape:
    """Where the values of one GPU are found. Answers are kept: the same few hundred questions are asked of each GPU."""

    def __init__(self, numbered: Leaves) -> None:
        self._numbered = numbered
        self._found: dict[tuple[str, ...], Place] = {}
        self._at: dict[tuple[str, ...], Place] = {}
        self._below: dict[str, tuple[tuple[str, Place], ...]] = {}
        self.processes = [{name: place_of(value) for name, value in one.items()} for one in numbered.processes]

    def get(self, patterns: tuple[str, ...]) -> Place:
        if patterns not in self._found:
            self._found[patterns] = place_of(self._numbered.get(*patterns))
        return self._found[patterns]

    def at(self, path: tuple[str, ...]) -> Place:
        if path not in self._at:
            self._at[path] = place_of(self._numbered.at(*path))
        return self._at[path]

    def below(self, section: str) -> tuple[tuple[str, Place], ...]:
        if section not in self._below:
            self._below[section] = tuple((label, place_of(value)) for label, value in self._numbered.below(section))
        return self._below[section]


class Filled(Leaves):
    """The leaves of one GPU of a listing: its shape, and all values of the listing by number. No value is an error."""

    def __init__(self, shape: Shape, values: Sequence[str]) -> None:
        super().__init__()
        self._shape = shape
        self._values = values
        self.processes = [
            {name: value for name, place in one.items() if (value := filled(place, values)) is not None}
            for one in shape.processes
        ]

    def get(self, *patterns: str) -> str | None:
        return filled(self._shape.get(patterns), self._values)

    def at(self, *path: str) -> str | None:
        return filled(self._shape.at(path), self._values)

    def below(self, section: str) -> Iterator[tuple[str, str]]:
        for label, place in self._shape.below(section):
            value = filled(place, self._values)
            if value is not None:
                yield label, value


def numbered(pieces: Sequence[str], before: str, behind: str) -> str:
    """The pieces of a listing between its values, joined with the numbers of the values in their place.

    before, behind: what stood between a value and its neighbours, and was cut off with it
    """
    marked = [f"{before}{MARK}{number}{behind}{piece}" for number, piece in enumerate(pieces[1:])]
    return "".join([pieces[0], *marked])


def filled(place: Place, values: Sequence[str]) -> str | None:
    """What stands there in the listing with these values."""
    return values[place].strip() if isinstance(place, int) else place


def place_of(value: str | None) -> Place:
    return int(value[1:]) if value is not None and value.startswith(MARK) else value
