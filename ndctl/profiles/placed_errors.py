"""What pydantic says of a document, as errors that stand at the right key of the user's file, in plain words."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from ndctl.model.errors import ExitCode, NdctlError, Where
from ndctl.profiles.marked_yaml import Document, KeyPath, dotted

_OWN = "ndctl"


def problem(message: str, *, hint: str = "", key: str = "") -> PydanticCustomError:
    """What a validator raises to give a hint, or to point at one key of the mapping it checks."""
    return PydanticCustomError(_OWN, "{message}", {"message": message, "hint": hint, "key": key})


def placed_errors(
    error: ValidationError,
    document: Document,
    model: type[BaseModel],
    kind: str,
    also_missing: Iterable[str] = (),
) -> list[NdctlError]:
    """One NdctlError (exit 2) for each thing pydantic found, in the order of the file.

    Keys that are missing in one mapping are one error; a key that is only misspelt is not missing too.
    `also_missing`: keys of the whole file that are needed though the model leaves them optional.
    """
    found: list[NdctlError] = []
    missing: dict[KeyPath, list[str]] = {(): list(also_missing)}
    misspelt: set[tuple[KeyPath, str]] = set()
    for detail in error.errors(include_url=False):
        path, rest = _split(detail["loc"], document)
        if detail["type"] == "missing":
            missing.setdefault(path, []).append(str(rest[-1]))
            continue
        if detail["type"] == "extra_forbidden":
            near = nearest(str(path[-1]), field_names(model, path[:-1]))
            misspelt |= {(path[:-1], near)} if near else set()
        found.append(_placed(detail, document, model, kind))
    for path, keys in missing.items():
        for key in [key for key in keys if (*path, key) in document.places]:
            hint = _description(model, (*path, key))
            found.append(_error(kind, "missing-key", f"'{key}' has no value", hint, document.where_key((*path, key))))
        keys = [key for key in keys if (path, key) not in misspelt and (*path, key) not in document.places]
        if keys:
            message = f"missing key{'s' if len(keys) > 1 else ''} " + ", ".join(f"'{key}'" for key in keys)
            hint = _description(model, (*path, keys[0])) if len(keys) == 1 else ""
            found.append(_error(kind, "missing-key", message, hint, document.where_key(path)))
    unique = {(str(one.where), one.message): one for one in found}
    return in_file_order(unique.values())


def _error(kind: str, code: str, message: str, hint: str, where: Where) -> NdctlError:
    return NdctlError(f"{kind}.{code}", message, hint=hint, where=where, exit_code=ExitCode.USAGE)


def in_file_order(errors: Iterable[NdctlError]) -> list[NdctlError]:
    """Sorted by line and column, as a reader meets them."""

    def position(error: NdctlError) -> tuple[int, int]:
        where = error.where
        return ((where.line or 0) if where else 0, (where.column or 0) if where else 0)

    return sorted(errors, key=position)


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` was probably meant to be, in any case; "" when none is near."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), sorted(by_lower), n=1, cutoff=0.6)
    return by_lower[near[0]] if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, else all of them, else ""."""
    known = sorted(known)
    near = nearest(word, known)
    if near:
        return f"did you mean '{near}'?"
    return f"one of: {', '.join(known)}" if known else ""


def _placed(detail: ErrorDetails, document: Document, model: type[BaseModel], kind: str) -> NdctlError:
    path, _ = _split(detail["loc"], document)
    context = detail.get("ctx") or {}
    name = dotted(path) or kind
    code, hint = "invalid", ""
    where = document.where_value(path)
    match detail["type"]:
        case "extra_forbidden":
            code, message = "unknown-key", f"unknown key '{path[-1]}'"
            where = document.where_key(path)
            hint = did_you_mean(str(path[-1]), field_names(model, path[:-1]))
        case "string_pattern_mismatch" | "string_too_short":
            message = f"{_shown(detail['input'])} is no valid {name}"
            hint = _description(model, path)
        case "literal_error" | "enum":
            message = f"{_shown(detail['input'])} is no {name}"
            hint = did_you_mean(str(detail["input"]), re.findall(r"'([^']*)'", str(context.get("expected", ""))))
        case "ndctl":
            # A problem of the mapping as a whole is marked, since its maker may want to tell it in more detail.
            code, message = ("invalid" if path or context.get("key") else "whole"), detail["msg"]
        case "value_error" | "assertion_error":
            message = str(context.get("error", detail["msg"]))
        case "union_tag_not_found" | "union_tag_invalid":
            message = f"{_shown(detail['input'])} is no {name}"
        case _:
            code, message = "wrong-type", f"{name}: {_needed(detail)}"
            hint = _description(model, path)
            if detail["type"] in _WANTS_LIST and isinstance(detail["input"], str):
                hint = f"write [{detail['input']}]"
    if context.get("hint"):
        hint = str(context["hint"])
    if context.get("key"):
        where = document.where_key((*path, str(context["key"])))
    return _error(kind, code, message, hint, where)


_WANTS_LIST = frozenset({"tuple_type", "list_type"})
_NEEDS = {
    "int_parsing": "a whole number is needed",
    "int_type": "a whole number is needed",
    "int_parsing_size": "a whole number is needed",
    "int_from_float": "a whole number is needed",
    "float_parsing": "a number is needed",
    "float_type": "a number is needed",
    "finite_number": "a finite number is needed",
    "bool_parsing": "true or false is needed",
    "bool_type": "true or false is needed",
    "string_type": "text is needed",
    "dict_type": "'key: value' lines are needed",
    "model_type": "'key: value' lines are needed",
    "model_attributes_type": "'key: value' lines are needed",
    "tuple_type": "a list is needed",
    "list_type": "a list is needed",
}


def _needed(detail: ErrorDetails) -> str:
    need = _NEEDS.get(detail["type"])
    if need is None:
        text = detail["msg"].removeprefix("Input should be ").removeprefix("Value should have ")
        return f"{_shown(detail['input'])} should be {text}" if text != detail["msg"] else text
    given = detail["input"]
    if given is None:
        return f"{need}, but it is empty"
    return f"{need}, not {_shown(given)}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = str(value)
    return f"'{text if len(text) <= 60 else text[:57] + '...'}'"


def _split(loc: tuple[int | str, ...], document: Document) -> tuple[KeyPath, KeyPath]:
    """The part of a pydantic location that the file has, and what remains; union labels in between are dropped."""
    path: KeyPath = ()
    rest: list[str | int] = []
    for part in loc:
        if (*path, part) in document.places:
            path, rest = (*path, part), []
        else:
            rest.append(part)
    return path, tuple(rest)


def field_names(model: type[BaseModel], path: KeyPath) -> set[str]:
    """The keys that may stand at `path`; empty where any key may, or none."""
    found: set[str] = set()
    for candidate in _types_at(model, path):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            found |= set(candidate.model_fields)
    return found


def _description(model: type[BaseModel], path: KeyPath) -> str:
    """The field's own description and example, as a hint."""
    for parent in _types_at(model, path[:-1]):
        if path and isinstance(parent, type) and issubclass(parent, BaseModel):
            info = parent.model_fields.get(str(path[-1]))
            if info is not None:
                return _words(info)
    return ""


def _words(info: FieldInfo) -> str:
    example = f"e.g. {info.examples[0]}" if info.examples else ""
    return "; ".join(part for part in (info.description or "", example) if part)


def _types_at(annotation: Any, path: KeyPath) -> list[Any]:
    """The types a value at `path` may have, through models, unions, lists and dicts."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _types_at(typing.get_args(annotation)[0], path)
    if origin in (typing.Union, types.UnionType):
        return [found for one in typing.get_args(annotation) for found in _types_at(one, path)]
    if not path:
        return [annotation]
    if origin in (tuple, list) and isinstance(path[0], int):
        return _types_at(typing.get_args(annotation)[0], path[1:])
    if origin is dict:
        return _types_at(typing.get_args(annotation)[1], path[1:])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        info = annotation.model_fields.get(str(path[0]))
        return _types_at(info.annotation, path[1:]) if info else []
    return []
