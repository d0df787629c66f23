"""Any of ndctl's values as plain JSON types, with the same keys in the same order every time."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any


def jsonable(value: Any) -> Any:
    """Dataclasses become objects, enums their values, NaN and infinity None (JSON has neither)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: jsonable(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted(jsonable(v) for v in value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, PurePath):
        return str(value)
    return value


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """Deterministic JSON text of any ndctl value; lone surrogates are escaped, so it always encodes."""
    return json.dumps(jsonable(value), indent=indent, ensure_ascii=True)
