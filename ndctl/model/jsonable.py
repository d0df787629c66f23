"""Any of ndctl's values as plain JSON types, with the same keys in the same order every time."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import Any


def jsonable(value: Any) -> Any:
    """Dataclasses become objects, enums their values, sets sorted lists, NaN and infinity None (JSON has neither).

    Bytes become text (what is not UTF-8 as \\xNN), lone surrogates in text \\uNNNN in letters (strict readers refuse
    them, and two in a row would be read as one character), dates and times ISO 8601. Raises TypeError for anything
    else, so that a value nobody thought of is not printed as its memory address.
    """
    if isinstance(value, Enum):
        return jsonable(value.value)
    if isinstance(value, str):
        return value if value.isascii() else _valid(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: jsonable(getattr(value, f.name)) for f in dataclasses.fields(value)}
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
    return json.dumps(jsonable(value), indent=indent, ensure_ascii=True, allow_nan=False)


def _valid(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _key(key: Any) -> str:
    plain = jsonable(key)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _order(plain: Any) -> tuple[str, Any, str]:
    """Numbers by size, then everything else by its JSON text: a set may hold both."""
    if isinstance(plain, (int, float)):
        return "", plain, ""
    return type(plain).__name__, 0, json.dumps(plain)
