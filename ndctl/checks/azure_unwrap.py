"""Finds the innermost cause in an Azure error of any nesting. Pure: dicts, lists and text in, causes out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ndctl.checks.azure_errors import FaultClass, classify, points_inside, vocabulary
from ndctl.parse.azure_error import parse

_DEEPEST = 20
_HOLDERS = ("error", "statusmessage", "details", "innererror", "properties", "response", "body")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


class Cause(NamedTuple):
    """One error of the nest; `target` is what Azure says it is about (an instance id, a property)."""

    code: str
    message: str
    target: str = ""


def innermost(found: Sequence[Cause]) -> Cause | None:
    """The cause to show: not a mere wrapper, preferably one whose meaning is known, the first of its kind.

    A wrapper code is the cause where nothing is inside it.
    """
    speaking = [one for one in found if not _only_wraps(one)]
    known = [one for one in speaking if classify(one.code, one.message).fault_class is not FaultClass.UNKNOWN]
    return next(iter(known or speaking or found[-1:]), None)


def _only_wraps(one: Cause) -> bool:
    """Whether an error only says that another one is inside it; a wide code tells no more than its message does."""
    told = one.code or one.message
    return not told or classify(one.code, one.message).kind != "cause" or points_inside(one.message)


def causes(value: Any) -> Iterator[Cause]:
    """Every error inside `value` (dict, list, or text that holds JSON), outermost first."""
    return _causes(value, 0)


def _causes(value: Any, depth: int) -> Iterator[Cause]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        inner = _json_inside(value)
        if inner is not None:
            yield from _causes(inner, depth + 1)
        elif depth == 0 and value.strip():
            told = parse(value, vocabulary()).errors
            yield from (Cause(one.code, one.message, one.target) for one in told)
            if not told:
                yield Cause("", value)
    elif isinstance(value, list):
        for one in value:
            yield from _causes(one, depth + 1)
    elif isinstance(value, dict):
        lower = {str(key).casefold(): one for key, one in value.items()}
        code, message, target = (lower.get(key) for key in ("code", "message", "target"))
        if isinstance(message, (dict, list)):
            lower["details"], message = [lower.get("details"), message], ""
        inner = _json_inside(message) if isinstance(message, str) else None
        if code is not None or isinstance(message, str):
            shown = message if inner is None and isinstance(message, str) else _before_json(message)
            yield Cause(str(code or ""), shown, str(target or ""))
        if inner is not None:
            yield from _causes(inner, depth + 1)
        for key in _HOLDERS:
            if lower.get(key) is not None:
                yield from _causes(lower[key], depth + 1)


def _json_inside(text: str) -> Any:
    """The first JSON object or array of errors inside a text; None when there is none."""
    for candidate in (text, _unescaped(text)):
        for match in re.finditer(r"[{\[]", candidate):
            try:
                value, _ = json.JSONDecoder(strict=False).raw_decode(candidate, match.start())
            except ValueError:
                continue
            if isinstance(value, (dict, list)) and re.search(r'"(code|error|details)"', candidate, re.IGNORECASE):
                return value
            break
    return None


def _before_json(message: Any) -> str:
    return re.split(r"[{\[]", message, maxsplit=1)[0].strip() if isinstance(message, str) else ""


def _unescaped(text: str) -> str:
    """One level of JSON string escapes taken off: text that was cut out of a string value."""
    return re.sub(r'\\([nrt"\\/])', lambda match: _ESCAPED[match[1]], text)
