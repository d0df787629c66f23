"""Any of ndctl's values as plain JSON types, with the same keys in the same order every time."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import date
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any


def jsonable(value: Any) -> Any:
    """Dataclasses become objects, enums their values, sets sorted lists, NaN and infinity None (JSON has neither).

    Bytes become text (what is not UTF-8 as \\xNN), lone surrogates in text \\uNNNN in letters (strict readers refuse
    them, and two in a row would be read as one character), dates and times ISO 8601. Raises TypeError for anything
    else, so that a value nobody thought of is not printed as its memory address.
    """
    kind: Any = type(value)
    # Nearly all values, told by their very type: a run of a thousand nodes has millions.
    if kind is str:
        return value if value.isascii() else _valid(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is tuple or kind is list:
        return [jsonable(v) for v in value]
    names = _names(kind)
    if names is not None:
        return {name: jsonable(getattr(value, name)) for name in names}
    if kind is dict:
        return {_key(k): jsonable(v) for k, v in value.items()}
    return _other(value)


_AS_THEY_ARE = frozenset({bool, int, type(None)})


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """The names of a dataclass's fields, in their order; None for any other type."""
    return tuple(one.name for one in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def _other(value: Any) -> Any:
    """What is of a type derived from a plain one, or of a rarer one."""
    if isinstance(value, Enum):
        return jsonable(value.value)
    if isinstance(value, str):
        return value if value.isascii() else _valid(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((jsonable(v) for v in value), key=_order)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, date):  # and datetime, which is one
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """Deterministic JSON text of any ndctl value, in ASCII, so that it is right in any encoding."""
    return plain_text(jsonable(value), indent=indent)


def plain_text(plain: Any, *, indent: int | None = 2) -> str:
    """The same of what `jsonable` made already."""
    return json.dumps(plain, indent=indent, ensure_ascii=True, allow_nan=False)


def _valid(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _key(key: Any) -> str:
    if type(key) is str and key.isascii():
        return key
    plain = jsonable(key)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _order(plain: Any) -> tuple[str, Any, str]:
    """Numbers by size, then everything else by its JSON text: a set may hold both."""
    if isinstance(plain, (int, float)):
        return "", plain, ""
    return type(plain).__name__, 0, json.dumps(plain)
