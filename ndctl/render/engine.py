"""Jinja set up so that a value can only enter a document through a filter that quotes it for that document."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import jinja2

import ndctl


class Quoted(str):
    """Text that a quoting filter made; anything else is refused as output."""

    __slots__ = ()


def templates_folder() -> Path:
    """`templates/` beside the package in a source checkout, inside it in an installed wheel."""
    package = Path(ndctl.__file__).parent
    for folder in (package / "_data" / "templates", package.parent / "templates"):
        if (folder / "foundation.json.j2").is_file():
            return folder
    raise FileNotFoundError(f"no templates beside {package}: the installation is incomplete")


def environment(folder: Path | None = None) -> jinja2.Environment:
    """Undefined names raise, and so does `{{ value }}` without one of the filters json, expression or sh."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder or templates_folder()),
        undefined=jinja2.StrictUndefined,
        finalize=_only_quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters["json"] = _json
    made.filters["expression"] = _expression
    made.filters["sh"] = _sh
    return made


def _only_quoted(value: Any) -> Quoted:
    if isinstance(value, jinja2.Undefined):
        str(value)  # StrictUndefined raises here, naming the missing value
    if not isinstance(value, Quoted):
        raise jinja2.TemplateRuntimeError(f"{value!r} would be written unquoted: use |json, |expression or |sh")
    return value


def _defined(value: Any) -> Any:
    if isinstance(value, jinja2.Undefined):
        str(value)
    return value


def _json(value: Any) -> Quoted:
    return Quoted(json.dumps(_literal(_defined(value)), ensure_ascii=True))


def _expression(value: Any) -> Quoted:
    """A template expression, e.g. "parameters('sshPublicKey')"; only constants of a template come this way."""
    return Quoted(json.dumps(f"[{_defined(value)}]"))


def _sh(value: Any) -> Quoted:
    return Quoted(shlex.quote(str(_defined(value))))


def _literal(value: Any) -> Any:
    """ARM evaluates "[…]"; one more "[" in front makes it text again, also inside tags and keys."""
    if isinstance(value, str):
        return "[" + value if value.startswith("[") and value.endswith("]") else value
    if isinstance(value, dict):
        return {_literal(key): _literal(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_literal(item) for item in value]
    return value
