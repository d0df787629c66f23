"""A Run as JSON and back: the one form that the record, `-o json` and `ndctl report` share.

Reading is lenient where versions differ and strict where a record is damaged: keys this version does not know are
left out, keys an older version did not write take their default, a word this version does not know is read as the
most careful one (status unknown, verdict incomplete, action investigate). What every record has must be there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from ndctl.model.findings import RUN_SCHEMA, Finding, NodeResult, RackResult, Run
from ndctl.model.jsonable import jsonable
from ndctl.model.status import Action, Status, Verdict

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


def run_to_json(run: Run) -> dict[str, Any]:
    """`{"schema": "ndctl.run/1", "run": id, "started": …, "inventories": […], "racks": […], "exit_code": …}`."""
    body = jsonable(run)
    return {"schema": RUN_SCHEMA, "run": body.pop("id"), **body}


def run_from_json(data: Any) -> Run:
    """The inverse of `run_to_json`. Raises ValueError, naming the key, for what is no such run."""
    if not isinstance(data, Mapping):
        raise ValueError("a run is a JSON object")
    schema = data.get("schema", RUN_SCHEMA)
    if schema != RUN_SCHEMA:
        raise ValueError(f"schema: {schema!r} is not {RUN_SCHEMA!r}")
    if "run" not in data:
        raise ValueError("run: missing")
    return _read(Run, {**data, "id": data["run"]}, "")


def _read(kind: type[T], data: Any, place: str) -> T:
    """One dataclass from a JSON object. `place` is the path to it, for error messages."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{place}: expected an object")
    values: dict[str, Any] = {}
    for one in dataclasses.fields(kind):  # type: ignore[arg-type]
        at = f"{place}.{one.name}".lstrip(".")
        optional = one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING
        value = data.get(one.name)
        if value is None and one.type != "Value":
            if optional:
                continue
            raise ValueError(f"{at}: missing")
        values[one.name] = _READERS[str(one.type)](value, at)
    return kind(**values)


def _plain(*types: type) -> Callable[[Any, str], Any]:
    def read(value: Any, place: str) -> Any:
        if isinstance(value, types) and (bool in types or not isinstance(value, bool)):
            return value
        raise ValueError(f"{place}: {type(value).__name__} is not expected here")

    return read


def _word(kind: type[E], otherwise: E) -> Callable[[Any, str], E]:
    def read(value: Any, place: str) -> E:
        return next((word for word in kind if word.value == value), otherwise)

    return read


def _several(each: Callable[[Any, str], T]) -> Callable[[Any, str], tuple[T, ...]]:
    def read(value: Any, place: str) -> tuple[T, ...]:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{place}: expected a list")
        return tuple(each(item, f"{place}[{index}]") for index, item in enumerate(value))

    return read


# By the field's annotation, so that a new field of a known type needs nothing here.
_READERS: dict[str, Callable[[Any, str], Any]] = {
    "str": _plain(str),
    "int": _plain(int),
    "float": _plain(int, float),
    "bool": _plain(bool),
    "Value": _plain(str, int, float, bool, type(None)),
    "Status": _word(Status, Status.UNKNOWN),
    "Verdict": _word(Verdict, Verdict.INCOMPLETE),
    "Action": _word(Action, Action.INVESTIGATE),
    "Mapping[str, Any]": _plain(Mapping),
    "tuple[str, ...]": _several(_plain(str)),
    "tuple[Mapping[str, Any], ...]": _several(_plain(Mapping)),
    "tuple[NodeResult, ...]": _several(lambda value, place: _read(NodeResult, value, place)),
    "tuple[Finding, ...]": _several(lambda value, place: _read(Finding, value, place)),
    "tuple[RackResult, ...]": _several(lambda value, place: _read(RackResult, value, place)),
}
